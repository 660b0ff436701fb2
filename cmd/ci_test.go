package cmd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// ciFolder has what docs/ci.md gives users for their own CI.
const ciFolder = "../docs/ci"

// workflow is what is looked at of a workflow of GitHub Actions.
type workflow struct {
	Name string `json:"name"`
	// On is "true" to a reader of YAML 1.1, as this one is.
	On          triggers          `json:"true"`
	Permissions map[string]string `json:"permissions"`
	Concurrency any               `json:"concurrency"`
	Env         map[string]any    `json:"env"`
	Jobs        map[string]job    `json:"jobs"`
}

type triggers struct {
	Push        any `json:"push"`
	PullRequest any `json:"pull_request"`
	Schedule    []struct {
		Cron string `json:"cron"`
	} `json:"schedule"`
	WorkflowDispatch struct {
		Inputs map[string]any `json:"inputs"`
	} `json:"workflow_dispatch"`
}

type job struct {
	Needs          any               `json:"needs"` // a name, or a list of names
	If             string            `json:"if"`
	RunsOn         string            `json:"runs-on"`
	TimeoutMinutes int               `json:"timeout-minutes"`
	Permissions    map[string]string `json:"permissions"`
	Strategy       struct {
		FailFast *bool            `json:"fail-fast"`
		Matrix   map[string][]any `json:"matrix"`
	} `json:"strategy"`
	Env   map[string]any `json:"env"`
	Steps []step         `json:"steps"`
}

type step struct {
	Name string         `json:"name"`
	ID   string         `json:"id"`
	If   string         `json:"if"`
	Uses string         `json:"uses"`
	Run  string         `json:"run"`
	With map[string]any `json:"with"`
	Env  map[string]any `json:"env"`
}

// workflows returns ours and those that we give to others, by their files.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	all := map[string]workflow{}
	for _, pattern := range []string{ciFolder + "/*.yml", "../.github/workflows/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) != 2 {
			t.Fatalf("%s: %q, %v; want two", pattern, files, err)
		}
		for _, file := range files {
			var w workflow
			// Strict: a key that the type does not have is a slip, or a rule to be added.
			if err := yaml.UnmarshalStrict(readCI(t, file), &w); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[file] = w
		}
	}
	return all
}

func readCI(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestWorkflows checks the workflows by rules of the kind that actionlint has: what refers to something, there is; and by what is
// good practice: the least permissions, byHash actions, a limit in time, and no expressions within scripts.
func TestWorkflows(t *testing.T) {
	for file, w := range workflows(t) {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			if w.Name == "" || len(w.Jobs) == 0 || w.Permissions == nil || len(w.Permissions) > 0 {
				t.Errorf("no name, no jobs, or permissions for all jobs: %v", w.Permissions)
			}
			for _, s := range w.On.Schedule {
				checkCron(t, s.Cron)
			}
			checkExpressions(t, &w, nil, fmt.Sprint(w.Env, w.Concurrency))
			for name, j := range w.Jobs {
				checkJob(t, &w, name, &j)
			}
		})
	}
}

// checkCron checks a time of every day, which is not at a full hour: then GitHub is late.
func checkCron(t *testing.T, cron string) {
	t.Helper()
	var minute, hour int
	if n, err := fmt.Sscanf(cron, "%d %d * * *", &minute, &hour); n != 2 || err != nil || minute < 1 || minute > 59 || hour > 23 {
		t.Errorf("cron %q: %v", cron, err)
	}
}

var byHash = regexp.MustCompile(`^[\w-]+/[\w./-]+@[0-9a-f]{40}$`)

func checkJob(t *testing.T, w *workflow, name string, j *job) {
	t.Helper()
	if j.RunsOn == "" || j.TimeoutMinutes == 0 || j.TimeoutMinutes > 360 || j.Permissions == nil || len(j.Steps) == 0 {
		t.Errorf("job %s has no runner, limit in time, permissions or steps", name)
	}
	if len(j.Strategy.Matrix) > 0 && (j.Strategy.FailFast == nil || *j.Strategy.FailFast) {
		t.Errorf("job %s: what one of the matrix finds ends the others", name)
	}
	for _, needed := range needs(j) {
		if _, ok := w.Jobs[needed]; !ok || needed == name {
			t.Errorf("job %s needs %q, which is no other job", name, needed)
		}
	}
	checkExpressions(t, w, j, fmt.Sprint(j.If, j.Env))
	for i, s := range j.Steps {
		where := fmt.Sprintf("job %s, step %d", name, i+1)
		switch {
		case (s.Uses == "") == (s.Run == ""):
			t.Errorf("%s: want one of uses and run", where)
		case s.Uses != "" && !byHash.MatchString(s.Uses):
			t.Errorf("%s: %s is not byHash by a hash", where, s.Uses)
		case strings.Contains(s.Run, "${{"):
			t.Errorf("%s: an expression in a script, which whoever starts the workflow could write: use env", where)
		}
		if strings.Contains(s.Uses, "/checkout@") && s.With["persist-credentials"] != false {
			t.Errorf("%s: the token stays in the checkout", where)
		}
		checkExpressions(t, w, j, fmt.Sprint(s.If, s.With, s.Env))
		checkVariables(t, w, j, where, s)
	}
}

// needs returns the names of the jobs that one needs.
func needs(j *job) []string {
	switch n := j.Needs.(type) {
	case string:
		return []string{n}
	case []any:
		var names []string
		for _, name := range n {
			names = append(names, fmt.Sprint(name))
		}
		return names
	}
	return nil
}

var (
	expression = regexp.MustCompile(`\$\{\{(.*?)\}\}`)
	mention    = regexp.MustCompile(`\b(inputs|matrix|needs|steps|env|secrets|github|runner)\.([\w-]+)`)
)

// githubs are the properties of the context github that there are, of those that workflows use.
var githubs = []string{"ref", "run_attempt", "run_id", "workflow"}

// checkExpressions checks that what the expressions in a text refer to is there. Job is nil outside of jobs.
func checkExpressions(t *testing.T, w *workflow, j *job, text string) {
	t.Helper()
	for _, e := range expression.FindAllStringSubmatch(text, -1) {
		for _, r := range mention.FindAllStringSubmatch(e[1], -1) {
			known := false
			switch r[1] {
			case "inputs":
				_, known = w.On.WorkflowDispatch.Inputs[r[2]]
			case "matrix":
				known = j != nil && j.Strategy.Matrix[r[2]] != nil
			case "needs":
				known = j != nil && slices.Contains(needs(j), r[2])
			case "steps":
				known = j != nil && slices.ContainsFunc(j.Steps, func(s step) bool { return s.ID == r[2] })
			case "github":
				known = slices.Contains(githubs, r[2])
			case "runner":
				known = r[2] == "os"
			}
			if !known {
				t.Errorf("%s: there is no %s", e[0], r[0])
			}
		}
	}
}

var variable = regexp.MustCompile(`\$\{?([A-Z][A-Z_]*)`)

// checkVariables checks that the variables of a script are set.
func checkVariables(t *testing.T, w *workflow, j *job, where string, s step) {
	t.Helper()
	set := slices.Concat(slices.Collect(maps.Keys(w.Env)), slices.Collect(maps.Keys(j.Env)), slices.Collect(maps.Keys(s.Env)))
	for _, v := range variable.FindAllStringSubmatch(s.Run, -1) {
		if !slices.Contains(set, v[1]) {
			t.Errorf("%s: nothing sets %s", where, v[1])
		}
	}
}

// values stand for what a run of CI puts in the place of variables.
var values = strings.NewReplacer(
	`"$SEED"`, "7", `"${MINUTES}m"`, "5m", `"$SHARD/$SHARDS"`, "1/4", `"$((JOB_COMPLETION_INDEX + 1))/$SHARDS"`, "1/8",
)

var stalemateWord = regexp.MustCompile(`(?:^|\s)(?:bin/)?stalemate ([a-z][^&|;]*)`)

// TestCommandsOfCI checks every line of the workflows, the Job and docs/ci.md that runs the command: the sub-command, its flags
// and the number of its arguments.
func TestCommandsOfCI(t *testing.T) {
	count := 0
	check := func(where, script string) {
		for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
			match := stalemateWord.FindStringSubmatch(values.Replace(strings.TrimSpace(line)))
			if match == nil {
				continue
			}
			count++
			if strings.Contains(match[1], "$") {
				t.Errorf("%s: %q has a variable that this test knows no value of", where, line)
			}
			if err := parses(strings.Fields(match[1])); err != nil {
				t.Errorf("%s: %q: %v", where, strings.TrimSpace(line), err)
			}
		}
	}
	for file, w := range workflows(t) {
		for name, j := range w.Jobs {
			for _, s := range j.Steps {
				check(file+", job "+name, s.Run)
			}
		}
	}
	check("docs/ci.md", string(readCI(t, ciFolder+".md")))
	check("job.yaml", strings.Join(indexedJob(t).Spec.Template.Spec.Containers[0].Args, "\n"))
	if count < 10 {
		t.Errorf("only %d commands", count)
	}
}

// manifest returns the object of a file.
func manifest[T any](t *testing.T, name string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict(readCI(t, filepath.Join(ciFolder, name)), object); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return object
}

func indexedJob(t *testing.T) *batchv1.Job { return manifest[batchv1.Job](t, "job.yaml") }

// TestIndexedJob has the simulated API server take the manifests of docs/ci, and refuse them with mistakes that matter.
func TestIndexedJob(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	create := func(object client.Object) error {
		object.SetNamespace("default")
		return simtest.NewClientBuilder(t).WithScheme(scheme).Build().Create(t.Context(), object)
	}
	if err := create(manifest[corev1.PersistentVolumeClaim](t, "claim.yaml")); err != nil {
		t.Error(err)
	}
	if err := create(indexedJob(t)); err != nil {
		t.Error(err)
	}
	for mistake, change := range map[string]func(*batchv1.JobSpec){
		"not indexed":        func(s *batchv1.JobSpec) { s.CompletionMode = nil },
		"restarts in place":  func(s *batchv1.JobSpec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure },
		"no limit per index": func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex, s.MaxFailedIndexes = nil, nil },
		"an unknown container": func(s *batchv1.JobSpec) {
			name := "stalemat"
			s.PodFailurePolicy.Rules[1].OnExitCodes.ContainerName = &name
		},
		"exit code 0": func(s *batchv1.JobSpec) { s.PodFailurePolicy.Rules[1].OnExitCodes.Values = []int32{0} },
	} {
		j := indexedJob(t)
		change(&j.Spec)
		if err := create(j); err == nil {
			t.Errorf("the server takes a Job with a mistake: %s", mistake)
		}
	}
}

// TestIndexedJobKnowsTheExitCodes checks that the Job has a rule for each of our exit codes but those of a pass, and of an internal
// error, which is tried again; and that the number of shards is the same everywhere.
func TestIndexedJobKnowsTheExitCodes(t *testing.T) {
	j := indexedJob(t)
	actions := map[Exit]batchv1.PodFailurePolicyAction{}
	for _, rule := range j.Spec.PodFailurePolicy.Rules {
		if rule.OnExitCodes == nil {
			continue
		}
		for _, code := range rule.OnExitCodes.Values {
			actions[Exit(code)] = rule.Action
		}
	}
	for _, exit := range precedence {
		want := batchv1.PodFailurePolicyActionFailIndex
		switch exit {
		case ExitPassed, ExitInternal:
			want = ""
		case ExitUsage:
			want = batchv1.PodFailurePolicyActionFailJob
		}
		if actions[exit] != want {
			t.Errorf("exit code %d: %q, want %q", exit, actions[exit], want)
		}
	}
	shards := fmt.Sprint(*j.Spec.Completions)
	for _, env := range j.Spec.Template.Spec.Containers[0].Env {
		if env.Name == "SHARDS" && env.Value != shards {
			t.Errorf("%s shards, %s completions", env.Value, shards)
		}
	}
	for file, w := range workflows(t) {
		if shards, ok := w.Env["SHARDS"]; ok && fmt.Sprint(len(w.Jobs["fuzz"].Strategy.Matrix["shard"])) != fmt.Sprint(shards) {
			t.Errorf("%s: %v shards, the matrix has %v", file, shards, w.Jobs["fuzz"].Strategy.Matrix["shard"])
		}
	}
}

// TestKustomization checks that the kustomization names the files that there are, and the image of the Job.
func TestKustomization(t *testing.T) {
	k := manifest[struct {
		APIVersion string                                   `json:"apiVersion"`
		Kind       string                                   `json:"kind"`
		Namespace  string                                   `json:"namespace"`
		Resources  []string                                 `json:"resources"`
		Images     []struct{ Name, NewName, NewTag string } `json:"images"`
	}](t, "kustomization.yaml")
	if k.Kind != "Kustomization" || len(k.Resources) != 2 {
		t.Errorf("a %s of %q", k.Kind, k.Resources)
	}
	for _, name := range k.Resources {
		readCI(t, filepath.Join(ciFolder, name))
	}
	image, _, _ := strings.Cut(indexedJob(t).Spec.Template.Spec.Containers[0].Image, ":")
	if len(k.Images) != 1 || k.Images[0].Name != image {
		t.Errorf("the kustomization replaces %v, the Job has %s", k.Images, image)
	}
}
