package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// Admission webhooks are asked about writes as a real server asks them: k8s.io/apiserver/pkg/admission/plugin/webhook, v1.36.
// Which there are is said by the MutatingWebhookConfigurations and ValidatingWebhookConfigurations in the store, as they are at
// the moment, and by the hooks given in Go (see [Server.AddHooks]). Who answers is the [WebhookClient]'s to find.
//
// A webhook may itself make requests while it is asked. If they change the object that the request is about, the request is
// carried out anew, webhooks included, as a real server does whose compare-and-swap has failed.
//
// What differs from a real server: the default admission plugins that change objects run after the mutating webhooks, so that
// these see a Pod without, for instance, its priority; match conditions are taken to hold, which is a fidelity gap; of several
// validating webhooks that refuse a request the first by name is told, where a real server tells the one that was fastest.

// Hook is an admission webhook given in Go.
type Hook struct {
	// MutatingWebhook says when the hook is called, by what name, and what becomes of its failures, with the defaults of a
	// configuration; sideEffects are None if left out. Without Rules it is called for every write. ClientConfig says nothing but
	// what an error shows as the address.
	registrationv1.MutatingWebhook
	// Configuration stands for the name of the configuration, which orders webhooks; it is Name if left out.
	Configuration string
	// Validating makes it a validating webhook: it is asked last, and may change nothing.
	Validating bool
	// Handle answers a request. An error stands for a connection that broke, or an answer that did not come in time:
	// [context.DeadlineExceeded], [ErrWebhookDown]. The UID of the response is filled in. It must neither block nor make requests
	// to the server.
	Handle func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)
}

// WebhookCall is one call of a webhook.
type WebhookCall struct {
	Webhook       string // its name
	Configuration string
	Mutating      bool
	URL           string // where the request is posted, with its query
	Path          string
	Timeout       time.Duration
	Review        *admissionv1.AdmissionReview
}

// WebhookClient calls a webhook that a configuration in the store names. The error is that of a connection, or an API status
// that the webhook answered with in place of a review; see also [ErrNoWebhook] and [ErrWebhookDown].
type WebhookClient func(*WebhookCall) (*admissionv1.AdmissionReview, error)

var (
	// ErrNoWebhook says that nobody has ever served the path.
	ErrNoWebhook = errors.New("nobody serves this webhook")
	// ErrWebhookDown says that whoever serves the path does not run at the moment.
	ErrWebhookDown = errors.New("who serves this webhook does not run")
)

// WebhookFault acts in place of a webhook that a request is sent to.
type WebhookFault struct {
	// Name of the webhook; empty for the first that is called. A name that no webhook has stands for one more, which is
	// validating, asked last, and whose failure is one of the request.
	Name string
	// Answer says what comes of the call.
	Answer WebhookClient
}

// SetWebhookClient says who calls the webhooks of configurations. Without a client none can be reached.
func (s *Server) SetWebhookClient(call WebhookClient) { s.webhooks().client = call }

// AddHooks adds webhooks given in Go. They belong to this server: a snapshot does not have them. The error says what is wrong
// with one.
func (s *Server) AddHooks(given ...Hook) error {
	added := make([]*hook, len(given))
	for i := range given {
		h, err := newGoHook(&given[i])
		if err != nil {
			return err
		}
		added[i] = h
	}
	w := s.webhooks()
	w.given = append(w.given, added...)
	w.current = nil
	return nil
}

// webhooks is what a server knows of its webhooks.
type webhooks struct {
	client  WebhookClient
	given   []*hook // in Go
	reviews int     // so many there have been, which makes their UIDs

	current []*hook  // those there are, in order; nil if they have to be found out
	names   []string // of all that have been configured at some time, sorted
	at      [2]int   // the lengths of the logs of the configurations that current and names are of
}

func (s *Server) webhooks() *webhooks {
	if s.hooks == nil {
		s.hooks = &webhooks{}
	}
	return s.hooks
}

// hooked reports whether there are webhooks. Nearly always there are none.
func (s *Server) hooked() bool {
	return s.hooks != nil && len(s.hooks.given) > 0 || s.configured(mutatingOrder) || s.configured(validatingOrder)
}

func (s *Server) configured(order int) bool {
	return order < len(s.tables) && s.tables[order].count > 0
}

// hook is a webhook, of either type: a validating one is written as a mutating one without a reinvocation policy.
type hook struct {
	id            string
	configuration string
	spec          *registrationv1.MutatingWebhook // with its defaults
	mutates       bool
	namespaces    labels.Selector
	objects       labels.Selector
	handle        func(*admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) // of one given in Go
	err           error                                                                       // a selector cannot be read
}

func newHook(configuration string, spec *registrationv1.MutatingWebhook, mutates bool) *hook {
	h := &hook{id: configuration + "/" + spec.Name, configuration: configuration, spec: spec, mutates: mutates}
	var errNamespaces, errObjects error
	h.namespaces, errNamespaces = metav1.LabelSelectorAsSelector(spec.NamespaceSelector)
	h.objects, errObjects = metav1.LabelSelectorAsSelector(spec.ObjectSelector)
	h.err = errors.Join(errNamespaces, errObjects)
	return h
}

// newGoHook makes a hook of one given in Go, by the rules of a configuration that has nothing else.
func newGoHook(given *Hook) (*hook, error) {
	spec := given.MutatingWebhook.DeepCopy()
	if given.Handle == nil {
		return nil, fmt.Errorf("webhook %q: Handle is nil: give the function that answers", spec.Name)
	}
	if len(spec.Rules) == 0 {
		every := []string{"*"}
		spec.Rules = []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.OperationAll},
			Rule:       registrationv1.Rule{APIGroups: every, APIVersions: every, Resources: []string{"*/*"}},
		}}
	}
	if spec.SideEffects == nil {
		spec.SideEffects = new(registrationv1.SideEffectClassNone)
	}
	if len(spec.AdmissionReviewVersions) == 0 {
		spec.AdmissionReviewVersions = []string{"v1"}
	}
	if spec.ClientConfig.Service == nil && spec.ClientConfig.URL == nil {
		spec.ClientConfig.Service = &registrationv1.ServiceReference{Namespace: metav1.NamespaceDefault, Name: "webhook-service"}
	}
	configuration := &registrationv1.MutatingWebhookConfiguration{Webhooks: []registrationv1.MutatingWebhook{*spec}}
	builtin.DefaultMutatingWebhookConfiguration(configuration, "")
	if errs := builtin.ValidateMutatingWebhookConfiguration(configuration, nil, ""); len(errs) > 0 {
		return nil, fmt.Errorf("webhook %q: %w", spec.Name, errs.ToAggregate())
	}
	h := newHook(cmp.Or(given.Configuration, spec.Name), &configuration.Webhooks[0], !given.Validating)
	h.handle = given.Handle
	return h, nil
}

// allHooks returns the webhooks there are, in the order in which they are asked: by the names of their configurations, and then as
// those list them; pkg/admission/configuration/mutating_webhook_manager.go.
func (s *Server) allHooks() []*hook {
	w := s.webhooks()
	logs := [2]int{len(s.table(s.kinds.rows[mutatingOrder]).log), len(s.table(s.kinds.rows[validatingOrder]).log)}
	if w.current != nil && w.at == logs {
		return w.current
	}
	w.at, w.current = logs, slices.Clone(w.given)
	for e := range s.table(s.kinds.rows[mutatingOrder]).all().entries() {
		w.current = append(w.current, mutatingHooks(e.object)...)
	}
	for e := range s.table(s.kinds.rows[validatingOrder]).all().entries() {
		w.current = append(w.current, validatingHooks(e.object)...)
	}
	slices.SortStableFunc(w.current, func(a, b *hook) int { return strings.Compare(a.configuration, b.configuration) })
	w.names = s.everConfigured()
	return w.current
}

func mutatingHooks(obj Object) []*hook {
	configuration := obj.(*registrationv1.MutatingWebhookConfiguration)
	hooks := make([]*hook, len(configuration.Webhooks))
	for i := range configuration.Webhooks {
		hooks[i] = newHook(configuration.Name, &configuration.Webhooks[i], true)
	}
	return hooks
}

func validatingHooks(obj Object) []*hook {
	configuration := obj.(*registrationv1.ValidatingWebhookConfiguration)
	hooks := make([]*hook, len(configuration.Webhooks))
	for i := range configuration.Webhooks {
		v := &configuration.Webhooks[i]
		hooks[i] = newHook(configuration.Name, &registrationv1.MutatingWebhook{
			Name: v.Name, ClientConfig: v.ClientConfig, Rules: v.Rules, FailurePolicy: v.FailurePolicy, MatchPolicy: v.MatchPolicy,
			NamespaceSelector: v.NamespaceSelector, ObjectSelector: v.ObjectSelector, SideEffects: v.SideEffects,
			TimeoutSeconds: v.TimeoutSeconds, AdmissionReviewVersions: v.AdmissionReviewVersions, MatchConditions: v.MatchConditions,
		}, false)
	}
	return hooks
}

// everConfigured returns the names of all webhooks that there are, or have been.
func (s *Server) everConfigured() []string {
	var names []string
	for _, h := range s.hooks.given {
		names = append(names, h.spec.Name)
	}
	for _, event := range s.table(s.kinds.rows[mutatingOrder]).log {
		for _, h := range mutatingHooks(event.Object) {
			names = append(names, h.spec.Name)
		}
	}
	for _, event := range s.table(s.kinds.rows[validatingOrder]).log {
		for _, h := range validatingHooks(event.Object) {
			names = append(names, h.spec.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Webhooks returns the names of the admission webhooks that there are, or have been, sorted.
func (s *Server) Webhooks() []string {
	logged := func(order int) bool { return order < len(s.tables) && len(s.tables[order].log) > 0 }
	if (s.hooks == nil || len(s.hooks.given) == 0) && !logged(mutatingOrder) && !logged(validatingOrder) {
		return nil
	}
	s.allHooks()
	return s.hooks.names
}

// address returns where a webhook is called: pkg/util/webhook/client.go.
func (h *hook) address() (base, path string) {
	if address := h.spec.ClientConfig.URL; address != nil {
		if u, err := url.Parse(*address); err == nil {
			return u.Scheme + "://" + u.Host, cmp.Or(u.Path, "/")
		}
		return *address, "/"
	}
	service := h.spec.ClientConfig.Service
	port := int32(443)
	if service.Port != nil {
		port = *service.Port
	}
	path = "/"
	if service.Path != nil && *service.Path != "" {
		path = *service.Path
	}
	host := net.JoinHostPort(service.Name+"."+service.Namespace+".svc", strconv.Itoa(int(port)))
	return "https://" + host, path
}

// timeout returns how long a webhook may take.
func (h *hook) timeout() time.Duration {
	if h.spec.TimeoutSeconds == nil {
		return 10 * time.Second // as a configuration's default
	}
	return time.Duration(*h.spec.TimeoutSeconds) * time.Second
}

// ignores reports whether a failure of the webhook is none of the request.
func (h *hook) ignores() bool {
	return h.spec.FailurePolicy != nil && *h.spec.FailurePolicy == registrationv1.Ignore
}

// unreached says why a webhook cannot be reached, as a real server's dialer does: pkg/util/webhook/client.go and
// pkg/util/proxy/proxy.go ResolveCluster.
func (s *Server) unreached(h *hook, err error) error {
	service := h.spec.ClientConfig.Service
	if service == nil {
		return s.unreachedHost(h, err)
	}
	address := "10.96.0.2" // of a Service that the scenario does not have, though somebody serves it
	if e := s.table(s.kinds.rows[serviceOrder]).get(service.Namespace, service.Name); e != nil {
		address = cmp.Or(e.object.(*corev1.Service).Spec.ClusterIP, address)
	} else if errors.Is(err, ErrNoWebhook) {
		return fmt.Errorf("service %q not found", service.Name)
	}
	port := int32(443)
	if service.Port != nil {
		port = *service.Port
	}
	return refused(net.JoinHostPort(address, strconv.Itoa(int(port))))
}

func (s *Server) unreachedHost(h *hook, err error) error {
	base, _ := h.address()
	u, parseErr := url.Parse(base)
	if parseErr != nil {
		return parseErr
	}
	host, port := u.Hostname(), cmp.Or(u.Port(), "443")
	switch {
	case net.ParseIP(host) != nil:
		return refused(net.JoinHostPort(host, port))
	case errors.Is(err, ErrNoWebhook) && host != "localhost":
		return fmt.Errorf("dial tcp: lookup %s on 10.96.0.10:53: no such host", host)
	default:
		return refused(net.JoinHostPort("127.0.0.1", port))
	}
}

func refused(address string) error {
	return fmt.Errorf("dial tcp %s: connect: connection refused", address)
}
