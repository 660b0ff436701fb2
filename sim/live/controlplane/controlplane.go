// Package controlplane starts a real control plane: etcd and kube-apiserver through controller-runtime's envtest, and
// kube-controller-manager where it is asked for.
//
//	plane, err := controlplane.Start(ctx, controlplane.Options{Controllers: []string{"statefulset-controller"}})
//	if errors.Is(err, assets.ErrMissing) {
//		t.Skip(err)
//	}
//	defer plane.Stop()
//
// The programs are those that package assets finds.
//
// # Children
//
// envtest puts its children into process groups of their own, so that they outlive a program that is killed. Here they do not: the
// program runs itself once more, as a keeper, which runs envtest and holds a pipe from the program. When that ends, in whatever way
// the program has ended, the keeper stops the control plane and removes its files. An init function of this package makes a
// program a keeper where an environment variable says so; it needs no TestMain. Only a keeper that is itself killed leaves its
// children behind.
package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/stalemate-dev/stalemate/sim/live/assets"
)

// Options say what control plane is started. The zero value is etcd and kube-apiserver.
type Options struct {
	// Controllers are those that kube-controller-manager runs, by the names of its flag --controllers, such as
	// statefulset-controller or garbage-collector-controller. Without any it is not started.
	Controllers []string
	// ManagerServer, if set, is the URL that kube-controller-manager takes for the API server's: of a proxy in front of it.
	ManagerServer string
	// ManagerFlags are more flags of kube-controller-manager, such as "--kube-api-content-type=application/json".
	ManagerFlags []string
	// APIServerFlags are more flags of kube-apiserver by their names without dashes, such as "watch-cache": "false".
	APIServerFlags map[string]string
	_              struct{}
}

// Plane is a control plane that runs.
type Plane struct {
	// Config is how an administrator reaches it, without limits of the client: QPS is -1.
	Config *rest.Config
	// Kubeconfig is the same for programs of others. Its user is in the group system:masters.
	Kubeconfig []byte
	// Etcd is the URL of etcd.
	Etcd string
	// Keeper is the process that keeps the control plane.
	Keeper int

	keeper *exec.Cmd
	hold   io.WriteCloser // the control plane runs until this is closed
	said   *tail
	ended  chan error
}

// report is what a keeper tells of its control plane once it runs, or why it does not.
type report struct {
	Kubeconfig []byte
	Etcd       string
	Error      string
}

// Start starts a control plane and returns when it answers. It takes some seconds. If the context ends earlier, nothing is left
// of it. The error wraps [assets.ErrMissing] where there is none on this machine.
func Start(ctx context.Context, options Options) (*Plane, error) {
	dir, err := assets.Dir()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	asked, err := json.Marshal(order{Dir: dir, Options: options})
	if err != nil {
		return nil, err
	}
	p := &Plane{said: &tail{}, ended: make(chan error, 1)}
	p.keeper = exec.Command(self)
	p.keeper.Env = append(os.Environ(), variable+"="+string(asked))
	p.keeper.SysProcAttr = apart()
	p.keeper.Stderr = p.said
	if p.hold, err = p.keeper.StdinPipe(); err != nil {
		return nil, err
	}
	answer, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Close() }()
	p.keeper.Stdout = tell
	err = p.keeper.Start()
	_ = tell.Close()
	if err != nil {
		return nil, err
	}
	p.Keeper = p.keeper.Process.Pid
	go func() { p.ended <- p.keeper.Wait() }()
	if err := p.listen(ctx, answer); err != nil {
		return nil, errors.Join(fmt.Errorf("control plane: %w", err), p.Stop())
	}
	return p, nil
}

// listen waits for the report of the keeper.
func (p *Plane) listen(ctx context.Context, answer *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = answer.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var r report
	if err := json.NewDecoder(answer).Decode(&r); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("its keeper says nothing (%w): %s", err, p.said)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(r.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	p.Config, p.Kubeconfig, p.Etcd = config, r.Kubeconfig, r.Etcd
	return nil
}

// patience is how long a keeper is given to stop everything: envtest gives each program 20 s.
const patience = time.Minute

// Stop stops the control plane, removes its files, and returns when that is done. Stopping it again does nothing.
func (p *Plane) Stop() error {
	_ = p.hold.Close()
	timer := time.AfterFunc(patience, func() { _ = p.keeper.Process.Kill() })
	defer timer.Stop()
	err := <-p.ended
	p.ended <- nil
	if err != nil {
		return fmt.Errorf("the keeper of the control plane: %w: %s", err, p.said)
	}
	return nil
}

// tail keeps the end of what is written to it, for messages.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailLength = 4 << 10

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, text...)
	if over := len(t.kept) - tailLength; over > 0 {
		t.kept = append([]byte(nil), t.kept[over:]...)
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.kept))
}
