// Command assets builds the programs of a real control plane from Go modules: etcd, kube-apiserver and
// kube-controller-manager, as the tool lines of go.mod name them.
//
//	go run . [-print]
//
// They go to $XDG_CACHE_HOME/stalemate/assets-VERSION, where the tests look for them. If they are there already, built from the
// same go.mod and go.sum with the same Go, nothing is done; neither is it if KUBEBUILDER_ASSETS names others.
//
// It uses nothing but the standard library, so that running it needs no download.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

func main() {
	onlyPrint := flag.Bool("print", false, "print the folder of the programs and build nothing")
	flag.Parse()
	b := builder{
		module: ".", cache: os.Getenv("XDG_CACHE_HOME"), given: os.Getenv("KUBEBUILDER_ASSETS"), command: "go",
		out: os.Stderr,
	}
	dir, err := b.run(*onlyPrint)
	if err != nil {
		b.say("assets: %v", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

// builder builds the programs. It is the other side of package sim/live/assets, which looks for them.
type builder struct {
	module  string // the folder of go.mod
	cache   string // the value of XDG_CACHE_HOME
	given   string // the value of KUBEBUILDER_ASSETS
	command string // the go command
	out     io.Writer
}

// say tells of the progress; nobody has to listen.
func (b builder) say(format string, values ...any) { _, _ = fmt.Fprintf(b.out, format+"\n", values...) }

// run builds what is missing and returns the folder of the programs.
func (b builder) run(onlyPrint bool) (string, error) {
	if b.given != "" {
		b.say("KUBEBUILDER_ASSETS is set: nothing is built")
		return b.given, nil
	}
	mod, err := os.ReadFile(filepath.Join(b.module, "go.mod"))
	if err != nil {
		return "", err
	}
	version, err := kubernetesOf(mod)
	if err != nil {
		return "", err
	}
	dir, err := b.folder(version)
	if err != nil || onlyPrint {
		return dir, err
	}
	stamp, err := b.stamp(mod, version)
	if err != nil {
		return "", err
	}
	switch have, err := os.ReadFile(filepath.Join(dir, "stamp")); {
	case err == nil && string(have) == stamp && complete(dir):
		b.say("nothing to do: the programs are there")
		return dir, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	return dir, b.build(dir, version, stamp)
}

// folder returns where the programs of a version are kept.
func (b builder) folder(version string) (string, error) {
	root := b.cache
	if !filepath.IsAbs(root) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		root = filepath.Join(home, ".cache")
	}
	return filepath.Join(root, "stalemate", "assets-"+version), nil
}

var kubernetesLine = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v(\d+\.\d+\.\d+)( // indirect)?$`)

// kubernetesOf returns the version of Kubernetes that a go.mod requires.
func kubernetesOf(mod []byte) (string, error) {
	found := kubernetesLine.FindSubmatch(mod)
	if found == nil {
		return "", errors.New("go.mod requires no k8s.io/kubernetes: run this in the folder sim/conformance/assets")
	}
	return string(found[1]), nil
}

// stamp says what the programs are built from, and how.
func (b builder) stamp(mod []byte, version string) (string, error) {
	sum, err := os.ReadFile(filepath.Join(b.module, "go.sum"))
	if err != nil {
		return "", err
	}
	said, err := exec.Command(b.command, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", b.command, err)
	}
	hash := sha256.New()
	for _, part := range [][]byte{mod, sum, said, []byte(strings.Join(arguments("", version), "\x00"))} {
		_, _ = fmt.Fprintf(hash, "%d\n%s", len(part), part) // which never fails
	}
	return fmt.Sprintf("Kubernetes %s, %s%x\n", version, said, hash.Sum(nil)), nil
}

// programs are the tools of go.mod by the name that their programs have in a control plane.
var programs = map[string]string{
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}

// complete reports whether all programs are in a folder.
func complete(dir string) bool {
	for name := range programs {
		if _, err := os.Stat(filepath.Join(dir, name+suffix())); err != nil {
			return false
		}
	}
	return true
}

func suffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// arguments are those of the go command. The version is stamped in, as a release has it.
func arguments(dir, version string) []string {
	parts := strings.Split(version, ".")
	const stamped = " -X k8s.io/component-base/version."
	return []string{"build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w" + stamped + "gitVersion=v" + version + stamped +
		"gitMajor=" + parts[0] + stamped + "gitMinor=" + parts[1], "-o", dir + string(filepath.Separator), "tool"}
}

// build builds the programs beside their folder, and puts them in its place when they are whole.
func (b builder) build(dir, version, stamp string) error {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(parent, filepath.Base(dir)+".building-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	b.say("building etcd and Kubernetes %s into %s: some minutes, once", version, dir)
	begun := time.Now() // real time: it only tells the user how long the build took
	cmd := exec.Command(b.command, arguments(temporary, version)...)
	cmd.Dir = b.module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS=", "GOARCH=")
	cmd.Stdout, cmd.Stderr = b.out, b.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s build: %w", b.command, err)
	}
	for name, tool := range programs {
		built := path.Base(strings.TrimSuffix(tool, "/v3")) // the go command leaves out a version
		from, to := filepath.Join(temporary, built+suffix()), filepath.Join(temporary, name+suffix())
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(temporary, "stamp"), []byte(stamp), 0o644); err != nil {
		return err
	}
	if err := replace(temporary, dir); err != nil {
		return err
	}
	b.say("built in %s", time.Since(begun).Round(time.Second))
	return nil
}

// replace puts a folder in the place of another. What runs from the other one goes on running.
func replace(from, to string) error {
	old := from + ".old"
	defer func() { _ = os.RemoveAll(old) }()
	if err := os.Rename(to, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.Rename(from, to)
	if err != nil && complete(to) { // somebody else has built them meanwhile
		return nil
	}
	return err
}
