package handler_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// Any program that is given a rest.Config runs against a handler, without a network.
func ExampleNew() {
	server := apiserver.NewServer(apiserver.NewKinds(apiserver.V136), time.Now)
	clientset, err := kubernetes.NewForConfig(handler.New(handler.NewLocal(server)).Config())
	if err != nil {
		panic(err)
	}
	secrets := clientset.CoreV1().Secrets("nowhere")
	_, err = secrets.Create(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	fmt.Println(err)
	// Output: namespaces "nowhere" not found
}
