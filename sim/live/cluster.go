package live

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/live/controlplane"
)

// cluster is a scenario on a real API server: its objects, its processes and its racers, behind the gate.
type cluster struct {
	ctx    context.Context
	cancel context.CancelFunc
	config *sim.Config
	kinds  *apiserver.Kinds
	plane  *controlplane.Plane
	server *server
	gate   *gate
	mirror *mirror
	proxy  *proxy
	hooks  *envtest.WebhookInstallOptions // nil where no process serves webhooks

	mu        sync.Mutex
	processes []*process
	racers    []*racer
	problems  []string
	panics    []string
	failure   error
}

// realControllers returns the controllers of kube-controller-manager that play racers, with the racers' names.
func realControllers(config *sim.Config, ours func(name string) bool) map[string]string {
	actors := map[string]string{}
	for i := range config.Racers {
		r := &config.Racers[i]
		if ours(r.Name) {
			continue
		}
		for _, controller := range r.Real {
			actors[controller] = r.Name
		}
	}
	return actors
}

// newCluster starts a control plane and puts the scenario's objects on it. Nothing acts on them yet.
func newCluster(ctx context.Context, config *sim.Config, actors map[string]string) (_ *cluster, err error) {
	c := &cluster{config: config, kinds: config.Kinds, gate: newGate()}
	c.ctx, c.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	options := controlplane.Options{}
	if len(actors) > 0 {
		if c.proxy, err = newProxy(actors); err != nil {
			return nil, err
		}
		for controller := range actors {
			options.Controllers = append(options.Controllers, controller)
		}
		slices.Sort(options.Controllers)
		options.ManagerServer = c.proxy.url
		options.ManagerFlags = []string{"--kube-api-content-type=application/json"}
	}
	if c.plane, err = controlplane.Start(ctx, options); err != nil {
		return nil, err
	}
	if c.server, err = newServer(c.plane.Config); err != nil {
		return nil, err
	}
	c.mirror = newMirror(c.ctx, c.server, c.kinds, c.gate.committed)
	if c.proxy != nil {
		c.proxy.serve(c)
	}
	return c, c.load()
}

// close ends everything, and waits for it.
func (c *cluster) close() error {
	c.cancel()
	var err error
	for _, p := range c.running() {
		p.kill()
		select {
		case <-p.ended:
		case <-time.After(patience):
			err = errors.Join(err, fmt.Errorf("process %s does not end", p.config.Name))
		}
	}
	if c.proxy != nil {
		err = errors.Join(err, c.proxy.close())
	}
	if c.plane != nil {
		err = errors.Join(err, c.plane.Stop())
	}
	if c.hooks != nil {
		err = errors.Join(err, c.hooks.Cleanup())
	}
	return err
}

// version returns the version of the API server, without a v.
func (c *cluster) version() (string, error) {
	answer, err := c.server.send(c.ctx, http.MethodGet, "/version", nil, nil)
	if err != nil {
		return "", err
	}
	var version struct{ GitVersion string }
	if err := json.Unmarshal(answer.body, &version); err != nil {
		return "", fmt.Errorf("the version of the API server: %w", err)
	}
	return strings.TrimPrefix(version.GitVersion, "v"), nil
}

// load puts the definitions of custom resources and the scenario's objects onto the server, as they are written.
func (c *cluster) load() error {
	if definitions := c.kinds.Definitions(); len(definitions) > 0 {
		_, err := envtest.InstallCRDs(c.plane.Config, envtest.CRDInstallOptions{CRDs: definitions, Scheme: runtime.NewScheme()})
		if err != nil {
			return fmt.Errorf("custom resources: %w", err)
		}
	}
	now := time.Now().Truncate(time.Second) // real time: the cluster is real
	prepared := apiserver.NewServer(c.kinds, func() time.Time { return sim.Epoch })
	if err := prepared.LoadAll(c.config.Given); err != nil {
		return err
	}
	var hooks []*envtest.WebhookInstallOptions
	for _, kind := range c.kinds.All() {
		if kind.Alias != nil || kind.Resource == "customresourcedefinitions" {
			continue
		}
		for _, obj := range prepared.List(kind, "") {
			if options := webhooksOf(obj); options != nil {
				hooks = append(hooks, options)
			} else if err := c.put(kind, obj, now); err != nil {
				return fmt.Errorf("%s %s: %w", kind, keyOf(obj), err)
			}
		}
	}
	for _, options := range hooks { // last, for nobody serves them yet
		if err := c.install(options); err != nil {
			return fmt.Errorf("webhooks: %w", err)
		}
	}
	return nil
}

// webhooksOf returns how a configuration of webhooks is installed, nil for any other object.
func webhooksOf(obj apiserver.Object) *envtest.WebhookInstallOptions {
	switch configuration := obj.DeepCopyObject().(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		configuration.ResourceVersion, configuration.UID = "", ""
		return &envtest.WebhookInstallOptions{MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{configuration}}
	case *admissionv1.ValidatingWebhookConfiguration:
		configuration.ResourceVersion, configuration.UID = "", ""
		return &envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{configuration}}
	default:
		return nil
	}
}

// put puts an object into etcd as it is written: an API server would not take its status, its generation or its deletionTimestamp
// from anybody.
func (c *cluster) put(kind *apiserver.Kind, obj apiserver.Object, now time.Time) error {
	obj = obj.DeepCopyObject().(apiserver.Object)
	if answer, err := c.server.send(c.ctx, http.MethodGet, pathOf(kind, obj.GetNamespace(), obj.GetName(), ""), nil, nil); err != nil {
		return err
	} else if answer.code == http.StatusOK {
		return nil // such as the namespace default
	}
	obj.SetResourceVersion("")
	obj.SetSelfLink("")
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	data, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	if data, err = shifted(data, now.Sub(sim.Epoch)); err != nil {
		return err
	}
	if err := c.etcd(registryKey(kind, obj), data); err != nil {
		return err
	}
	return c.rewrite(kind, obj)
}

// rewrite has the server write an object in its own form: a write that changes nothing is one only if not a byte would change.
func (c *cluster) rewrite(kind *apiserver.Kind, obj apiserver.Object) error {
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		return nil // it would be deleted
	}
	answer, err := c.server.sendAs(c.ctx, http.MethodPatch, pathOf(kind, obj.GetNamespace(), obj.GetName(), ""), nil, []byte("{}"),
		string(types.MergePatchType), "")
	if err == nil && answer.code != http.StatusOK {
		err = fmt.Errorf("the server does not take it: %d: %s", answer.code, answer.body)
	}
	return err
}

// install has the server call the webhooks of a configuration where the processes under test serve them.
func (c *cluster) install(options *envtest.WebhookInstallOptions) error {
	if c.hooks != nil { // one place serves them all
		options.LocalServingHost, options.LocalServingPort = c.hooks.LocalServingHost, c.hooks.LocalServingPort
		options.LocalServingCertDir, options.LocalServingCAData = c.hooks.LocalServingCertDir, c.hooks.LocalServingCAData
	} else if err := options.PrepWithoutInstalling(); err != nil {
		return err
	}
	if err := options.Install(c.plane.Config); err != nil {
		return err
	}
	if c.hooks == nil {
		c.hooks = options
	}
	return nil
}

// shifted moves the times of an object from virtual time, which begins in the year of sim.Epoch, to real time.
func shifted(data []byte, by time.Duration) ([]byte, error) {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	var walk func(any) any
	walk = func(value any) any {
		switch v := value.(type) {
		case map[string]any:
			for key := range v {
				v[key] = walk(v[key])
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case string:
			if at, err := time.Parse(time.RFC3339, v); err == nil && sim.Epoch.Sub(at).Abs() < 365*24*time.Hour {
				return at.Add(by).UTC().Format(time.RFC3339)
			}
		}
		return value
	}
	return json.Marshal(walk(tree))
}

// registryNames are the places in etcd of resources that are not kept under their own name
// (pkg/registry/core/rest/storage_core.go and pkg/kubeapiserver/default_storage_factory_builder.go, v1.36).
var registryNames = map[string]string{
	"nodes": "minions", "services": "services/specs", "endpoints": "services/endpoints", "ingresses": "ingress",
	"replicationcontrollers": "controllers", "networkpolicies": "networkpolicies",
}

// registryKey returns the key under which the API server keeps an object in etcd.
func registryKey(kind *apiserver.Kind, obj apiserver.Object) string {
	parts := []string{"/registry"}
	switch place, ok := registryNames[kind.Resource]; {
	case kind.Custom():
		parts = append(parts, kind.Group, kind.Resource)
	case ok:
		parts = append(parts, place)
	default:
		parts = append(parts, kind.Resource)
	}
	if obj.GetNamespace() != "" {
		parts = append(parts, obj.GetNamespace())
	}
	return strings.Join(append(parts, obj.GetName()), "/")
}

// etcd writes a value by etcd's gateway of JSON over HTTP.
func (c *cluster) etcd(key string, value []byte) error {
	body, err := json.Marshal(map[string]string{
		"key": base64.StdEncoding.EncodeToString([]byte(key)), "value": base64.StdEncoding.EncodeToString(value),
	})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.plane.Etcd+"/v3/kv/put", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	answer, err := readAnswer(response)
	if err == nil && answer.code != http.StatusOK {
		err = fmt.Errorf("etcd: %d: %s", answer.code, answer.body)
	}
	return err
}

// begin starts the cluster's racers and the programs under test.
func (c *cluster) begin(ours func(string) bool) error {
	if c.proxy != nil {
		c.proxy.open(c.ctx)
	}
	if err := c.launch(); err != nil {
		return err
	}
	for i := range c.config.Racers {
		r := &c.config.Racers[i]
		if !r.WithScript && (len(r.Real) == 0 || ours(r.Name)) {
			c.addRacer(c.startRacer(r, nil))
		}
	}
	return nil
}

// launch starts the programs under test.
func (c *cluster) launch() error {
	for i := range c.config.Processes {
		p, err := c.start(&c.config.Processes[i], c.config.Processes[i].Program, 1)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.processes = append(c.processes, p)
		c.mu.Unlock()
	}
	c.gate.moved() // what was done so far was ours
	return nil
}

// relaunch ends the programs under test, and starts them anew.
func (c *cluster) relaunch() error {
	for _, p := range c.running() {
		p.kill()
		<-p.ended
	}
	c.mu.Lock()
	c.processes = nil
	c.mu.Unlock()
	c.gate.reset()
	return c.launch()
}

// beginScript starts the racers that tell the story.
func (c *cluster) beginScript(skip []int) {
	for _, r := range c.allRacers() {
		r.scriptBegins()
	}
	for i := range c.config.Racers {
		if r := &c.config.Racers[i]; r.WithScript {
			c.addRacer(c.startRacer(r, skip))
		}
	}
}

func (c *cluster) addRacer(r *racer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.racers = append(c.racers, r)
}

func (c *cluster) allRacers() []*racer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.racers)
}

func (c *cluster) running() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.processes)
}

// replace puts the successor of a process in its place.
func (c *cluster) replace(old, successor *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.processes, old); i >= 0 {
		c.processes[i] = successor
	}
}

func (c *cluster) problem(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, text)
}

func (c *cluster) panicked(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.panics = append(c.panics, text)
}

// fail ends the run with an error of ours, or of a program's set-up.
func (c *cluster) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = errors.Join(c.failure, err)
}

func (c *cluster) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// rest waits until the cluster has come to rest: nothing was committed for so long, no pass and no request goes on, nothing is
// held, and no racer waits for its time. It reports false if the context ended before.
func (c *cluster) rest(ctx context.Context, quiet time.Duration) (bool, error) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-ticker.C:
		}
		if err := c.failed(); err != nil {
			return false, err
		}
		since, still := c.gate.quiet()
		if !slices.ContainsFunc(c.allRacers(), func(r *racer) bool { return !r.idle() }) {
			if still && since >= quiet {
				return true, nil
			}
			continue
		}
		c.gate.moved()
	}
}
