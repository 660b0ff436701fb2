package fuzz

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// findings describes the findings of a night, those of processes among them.
func findings(n *Night) []string {
	var all []string
	for _, t := range n.Targets {
		for _, f := range t.Result().Findings {
			text := fmt.Sprintf("%s: %s by %s, seed %d, execution %d, and %d more", t.Name, history.SignatureID(f.Signature), f.Strategy, f.Seed,
				f.Execution, f.Also)
			if f.Schedule != nil {
				text += fmt.Sprintf(": %v %v %v", f.Schedule.Constraints, f.Schedule.Faults, f.Schedule.Latencies)
			}
			all = append(all, text)
		}
		for _, d := range t.deaths() {
			all = append(all, fmt.Sprintf("%s: %s by %s, execution %d, %d times", t.Name, d.Text(), d.origin(), d.Flight.Number, d.Count))
		}
	}
	return all
}

// TestWorkersMakeNoDifference explores with one worker and with two: the findings and the files are the same, to the byte.
func TestWorkersMakeNoDifference(t *testing.T) {
	folder := writeScenario(t, t.TempDir(), "panic")
	var want []string
	var files map[string]string
	for _, workers := range []int{1, 2} {
		o := options(t, folder)
		o.Workers = workers
		night := explored(t, o)
		got := findings(night)
		if len(got) < 3 {
			t.Fatalf("there are few findings: %q", got)
		}
		written := tree(t, o.Out)
		corpus := tree(t, filepath.Join(o.Corpus, corpusFolder))
		for name, content := range corpus {
			written["corpus/"+name] = content
		}
		if workers == 1 {
			want, files = got, written
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with %d workers (-one +more):\n%s", workers, diff)
		}
		if diff := cmp.Diff(files, written); diff != "" {
			t.Errorf("files with %d workers (-one +more):\n%s", workers, diff)
		}
	}
}

// TestShardsMerge explores in one go and in two shards: merged, in either order, they come to the same.
func TestShardsMerge(t *testing.T) {
	folder := writeScenario(t, t.TempDir(), "nothing")
	var nights []*Night
	for shard := range 3 {
		o := options(t, folder)
		if shard > 0 {
			o.Shard, o.Shards = shard, 2
		}
		nights = append(nights, recoded(t, explored(t, o)))
	}
	want := findings(nights[0])
	if len(want) < 2 {
		t.Fatalf("there are few findings: %q", want)
	}
	for _, order := range [][]*Night{{nights[1], nights[2]}, {nights[2], nights[1]}} {
		merged, err := Merge(order...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, findings(recoded(t, merged))); diff != "" {
			t.Errorf("shards merged (-one +merged):\n%s", diff)
		}
	}
	if _, err := Merge(nights[1], nights[1]); err == nil || !strings.Contains(err.Error(), "shard 1 of 2 is given twice") {
		t.Errorf("a shard given twice: %v", err)
	}
	if _, err := Merge(nights[0], nights[1]); err == nil || !strings.Contains(err.Error(), "different explorations") {
		t.Errorf("shards of different explorations: %v", err)
	}
}

// TestStateIsPutTogether checks what an exploration leaves behind of a target: two files, without the histories that nothing needs any
// more, and from which an exploration that goes on has the same findings without a run.
func TestStateIsPutTogether(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"runs": func(*Options) {},
		"time": func(o *Options) { o.Runs, o.For = -1, time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, writeScenario(t, t.TempDir(), "nothing"))
			change(&o)
			want := findings(explored(t, o))
			if len(want) < 2 {
				t.Fatalf("there are few findings: %q", want)
			}
			for file := range tree(t, filepath.Join(o.Corpus, ".state")) {
				if strings.HasPrefix(filepath.Base(file), "unit-") {
					t.Errorf("%s is left", file)
				}
			}
			if o.Runs < 0 {
				return // it would go on
			}
			if diff := cmp.Diff(want, findings(explored(t, o))); diff != "" {
				t.Errorf("taken up again (-before +after):\n%s", diff)
			}
		})
	}
}

// recoded writes a night, and reads it again.
func recoded(t *testing.T, n *Night) *Night {
	t.Helper()
	var content bytes.Buffer
	if err := n.Encode(&content); err != nil {
		t.Fatal(err)
	}
	again, err := DecodeNight(&content)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// kills is how many supervisors or workers are killed in a test.
const kills = 20

// TestKilled kills supervisors and workers at random moments, and goes on each time: no finding is lost, and none is made up.
func TestKilled(t *testing.T) {
	folder := writeScenario(t, t.TempDir(), "exit")
	undisturbed := options(t, folder)
	want := findings(explored(t, undisturbed))
	if len(want) < 3 {
		t.Fatalf("there are few findings: %q", want)
	}
	random := rand.New(rand.NewPCG(1, 2))
	o := options(t, folder)
	killed := 0
	for killed < kills {
		began := time.Now()
		command := startSupervisor(t, o)
		for range 1 + random.IntN(3) { // a worker or two, and then the supervisor
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
			if worker := childOf(command.Process.Pid, random); worker > 0 && syscall.Kill(worker, syscall.SIGKILL) == nil {
				killed++
			}
		}
		_ = command.Process.Kill()
		killed++
		_ = command.Wait()
		if time.Since(began) > time.Minute {
			t.Fatal("it takes too long")
		}
	}
	night := explored(t, o)
	if diff := cmp.Diff(want, findings(night)); diff != "" {
		t.Errorf("after %d kills (-undisturbed +killed):\n%s", killed, diff)
	}
	if diff := cmp.Diff(tree(t, undisturbed.Out), tree(t, o.Out)); diff != "" {
		t.Errorf("files after %d kills (-undisturbed +killed):\n%s", killed, diff)
	}
}

// startSupervisor starts an exploration in a process of its own.
func startSupervisor(t *testing.T, o Options) *exec.Cmd {
	t.Helper()
	o.Registry, o.Replay = nil, nil
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0], asSupervisor, string(text))
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command
}

// childOf returns one of the children of a process, zero if it has none.
func childOf(pid int, random *rand.Rand) int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0
	}
	var all []int
	for field := range strings.FieldsSeq(string(content)) {
		var child int
		if _, err := fmt.Sscan(field, &child); err == nil {
			all = append(all, child)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[random.IntN(len(all))]
}
