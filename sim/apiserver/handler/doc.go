// Package handler serves a simulated API server over HTTP, as kube-apiserver serves a real one: what client-go, controller-runtime
// or curl speak, it understands, and it answers with the same codes, headers and bodies.
//
// A [Handler] is an http.Handler, for a listener or httptest, and an http.RoundTripper, which needs neither sockets nor
// goroutines: a request is answered on the goroutine of its caller, and the body of a watch makes its events when it is read.
// So unmodified programs run against it anywhere, in a testing/synctest bubble too:
//
//	server := apiserver.NewServer(apiserver.NewKinds(apiserver.V136), time.Now)
//	clientset, err := kubernetes.NewForConfig(handler.New(handler.NewLocal(server)).Config())
//
// Behind a Handler is a [Backend]. [Local] is a server of this process, guarded so that many clients can use it at once; an
// engine that decides itself when a request is executed puts its own in.
//
// # What it speaks
//
// Discovery, plain and aggregated; the verbs of all kinds of the server's table and of their subresources; watches, with
// bookmarks and streamed initial events; JSON, YAML and, for built-in kinds, protobuf; whole objects or their metadata;
// field validation with its warnings; and the server's own refusals of what it cannot read. What a text says or which check
// comes first follows k8s.io/apiserver v1.36, of which each file names its source.
//
// # Limitations
//
// There is no OpenAPI (404, which clients take for a server without it), no CBOR, no compression, no Table, no websocket and
// no proxying; logs, exec and attach have nothing to show. managedFields are shown from the first apply to a kind on, or always
// after [apiserver.Server.TrackManagedFields]. Users are known by the Impersonate-User header, and nobody has to log in. Bodies
// may have 3 MiB; what etcd would refuse to store below that is stored. A watch without a timeout ends after 45 minutes, where a
// real one ends after a random time between 30 and 60.
package handler
