package controlplane_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/stalemate-dev/stalemate/sim/live/assets"
	"github.com/stalemate-dev/stalemate/sim/live/controlplane"
)

// holder makes a test program start a control plane, say where it is, and hold it for ever.
const holder = "STALEMATE_TEST_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holder) == "" {
		os.Exit(m.Run())
	}
	fmt.Println(`"starting"`)
	plane, err := controlplane.Start(context.Background(), controlplane.Options{Controllers: []string{"namespace-controller"}})
	if err != nil {
		panic(err)
	}
	data, err := json.Marshal([]string{plane.Config.Host, plane.Etcd})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(data))
	select {}
}

func needAssets(t *testing.T) {
	t.Helper()
	if _, err := assets.Dir(); errors.Is(err, assets.ErrMissing) {
		t.Skip(err)
	}
}

// TestStart starts everything and sees a controller work.
func TestStart(t *testing.T) {
	needAssets(t)
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Controllers: []string{"statefulset-controller"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(plane.Stop(), plane.Stop()); err != nil {
			t.Error(err)
		}
		if answers(t, plane.Config.Host) {
			t.Error("the API server still answers")
		}
	}()
	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		},
	}}
	if _, err := client.AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		_, err := client.CoreV1().Pods("default").Get(t.Context(), "web-0", metav1.GetOptions{})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody creates the pod of the StatefulSet: ", err)
		}
	}
}

// TestChildrenDieWithTheProgram kills a program that has started a control plane: nothing of it may stay, no process and no file.
func TestChildrenDieWithTheProgram(t *testing.T) {
	needAssets(t)
	for _, when := range []struct {
		name  string
		after time.Duration
		whole bool // it has started
	}{{"at once", 0, false}, {"while it starts", time.Second, false}, {"while it runs", 0, true}} {
		t.Run(when.name, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			scratch := t.TempDir()
			program := exec.Command(self)
			program.Env = append(os.Environ(), holder+"=1", "TMPDIR="+scratch)
			program.Stderr = os.Stderr
			stdout, err := program.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			lines.Scan()
			var addresses []string
			if when.whole {
				if !lines.Scan() || json.Unmarshal(lines.Bytes(), &addresses) != nil {
					t.Fatalf("the program says %q", lines.Text())
				}
				for _, address := range addresses {
					if !answers(t, address) {
						t.Errorf("nobody answers at %s", address)
					}
				}
			}
			time.Sleep(when.after)
			if err := program.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = program.Wait() // it was killed
			awaitNothing(t, scratch, addresses)
		})
	}
}

// awaitNothing waits until a folder is empty and nobody answers at some addresses any more.
func awaitNothing(t *testing.T, scratch string, addresses []string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var left []string
		files, err := os.ReadDir(scratch)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			left = append(left, file.Name())
		}
		for _, address := range addresses {
			if answers(t, address) {
				left = append(left, address)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a minute after the program was killed there are still %q", left)
		}
	}
}

// answers reports whether somebody listens at the address of a URL.
func answers(t *testing.T, address string) bool {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.DialTimeout("tcp", parsed.Host, time.Second)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}
