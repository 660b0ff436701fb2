package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// variable is the environment variable that makes a program a keeper. Its value is the order.
const variable = "STALEMATE_CONTROL_PLANE"

// order is what a keeper is to start.
type order struct {
	Dir string // of the programs
	Options
}

func init() {
	asked := os.Getenv(variable)
	if asked == "" {
		return
	}
	if err := keep(asked); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// keep starts what was asked for, tells of it on the standard output, and stops it at the end of the standard input.
func keep(asked string) (err error) {
	if err := os.Unsetenv(variable); err != nil { // the children are what they are
		return err
	}
	var o order
	if err := json.Unmarshal([]byte(asked), &o); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "stalemate-control-plane-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := os.Setenv("TMPDIR", scratch); err != nil { // envtest and its children leave some files behind
		return err
	}
	// Nobody may listen when there is something to tell: that must not be the end.
	signal.Ignore(syscall.SIGPIPE)
	released, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	k := &keeper{order: o, scratch: scratch}
	defer func() { err = errors.Join(err, k.stop()) }()
	told, err := k.start()
	if err != nil {
		told = report{Error: err.Error()}
	}
	_ = json.NewEncoder(os.Stdout).Encode(told)
	if err == nil {
		<-released.Done()
	}
	return nil
}

// keeper runs a control plane.
type keeper struct {
	order
	scratch     string
	environment *envtest.Environment
	manager     *exec.Cmd
}

func (k *keeper) start() (report, error) {
	k.environment = &envtest.Environment{BinaryAssetsDirectory: k.Dir, UseExistingCluster: new(false)}
	flags := k.environment.ControlPlane.GetAPIServer().Configure()
	for _, name := range slices.Sorted(maps.Keys(k.APIServerFlags)) {
		flags.Set(name, k.APIServerFlags[name])
	}
	config, err := k.environment.Start()
	if err != nil {
		return report{}, err
	}
	user, err := k.environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, config)
	if err != nil {
		return report{}, err
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return report{}, err
	}
	if len(k.Controllers) > 0 {
		if err := k.startManager(kubeconfig); err != nil {
			return report{}, err
		}
	}
	return report{Kubeconfig: kubeconfig, Etcd: k.environment.ControlPlane.Etcd.URL.String()}, nil
}

// startManager starts kube-controller-manager. It needs neither certificates nor keys for what it does here.
func (k *keeper) startManager(kubeconfig []byte) error {
	file := filepath.Join(k.scratch, "kubeconfig")
	kubeconfig, err := through(kubeconfig, k.ManagerServer)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return err
	}
	k.manager = exec.Command(filepath.Join(k.Dir, "kube-controller-manager"),
		"--kubeconfig="+file, "--controllers="+strings.Join(k.Controllers, ","), "--leader-elect=false",
		"--use-service-account-credentials=false", "--bind-address=127.0.0.1", "--secure-port=0",
		"--kube-api-qps=500", "--kube-api-burst=1000")
	k.manager.Args = append(k.manager.Args, k.ManagerFlags...)
	k.manager.SysProcAttr = apart()
	return k.manager.Start()
}

// through returns a kubeconfig with another server, of a proxy that needs neither certificates nor keys; an empty one changes
// nothing.
func through(kubeconfig []byte, server string) ([]byte, error) {
	if server == "" {
		return kubeconfig, nil
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, err
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthorityData = server, nil
	}
	for _, user := range config.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData = nil, nil
	}
	return clientcmd.Write(*config)
}

// stop stops everything that was started.
func (k *keeper) stop() error {
	var err error
	if k.manager != nil && k.manager.Process != nil {
		kill := time.AfterFunc(10*time.Second, func() { _ = k.manager.Process.Kill() })
		_ = k.manager.Process.Signal(os.Interrupt)
		_ = k.manager.Wait() // how it ends does not matter
		kill.Stop()
	}
	if k.environment != nil {
		err = k.environment.Stop()
	}
	return err
}
