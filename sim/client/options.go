package client

import (
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Option changes what the manager of a program is like.
type Option func(*settings)

// settings are what a program's manager is configured with. Runs share them and never change them.
type settings struct {
	options        ctrl.Options
	readYourWrites bool
}

// WithOptions makes the manager as ctrl.NewManager would with these options, so that a test can use those of the operator's own
// main. The options of caches (selectors, namespaces, transforms, ...), of the client (DisableFor, Unstructured, DryRun,
// FieldOwner, FieldValidation) and of controllers count. Those that are about a real process or a real connection (metrics,
// probes, leader election, webhook servers, loggers, HTTP clients, mappers, bookmarks) and the scheme, which [Manager] is given,
// have no meaning here and are ignored. NewCache, NewClient and Cache.NewInformer are functions that make what we have to make
// ourselves: the program does not start with them.
//
// Periodic resyncs mask lost events. There are none unless SyncPeriod is set, whose default in controller-runtime is 10 hours.
func WithOptions(options ctrl.Options) Option {
	return func(s *settings) { s.options = options }
}

// ReadYourWrites lets cached reads of the manager's client wait until the cache has seen what the client wrote before: the
// experimental option EnableReadYourWritesConsistency in client.CacheOptions of controller-runtime v0.25. It is for programs
// that are built with an older one, too; where the option exists, [WithOptions] with it set does the same.
func ReadYourWrites() Option {
	return func(s *settings) { s.readYourWrites = true }
}

func newSettings(opts []Option) *settings {
	s := &settings{}
	for _, option := range opts {
		option(s)
	}
	if c := s.options.Client.Cache; c != nil && flag(c, "EnableReadYourWritesConsistency") {
		s.readYourWrites = true
	}
	return s
}

// flag returns a field of a struct that is a bool, or a pointer to one; false if there is no such field. Those that are asked
// for came with controller-runtime v0.25, and cannot be named as long as an older one must do.
func flag(options any, name string) bool {
	field := reflect.Indirect(reflect.Indirect(reflect.ValueOf(options)).FieldByName(name))
	return field.IsValid() && field.Kind() == reflect.Bool && field.Bool()
}

// check refuses what cannot be honoured and would change what the program sees.
func (s *settings) check() error {
	c := &s.options.Client
	switch {
	case s.options.NewCache != nil:
		return errors.New("ctrl.Options.NewCache: a simulated manager makes its own cache: leave it out, and set Cache instead")
	case s.options.NewClient != nil:
		return errors.New("ctrl.Options.NewClient: a simulated manager makes its own client: leave it out, and set Client instead")
	case s.options.Cache.NewInformer != nil:
		return errors.New("ctrl.Options.Cache.NewInformer: a simulated manager makes its own informers: leave it out")
	case c.Cache != nil && c.Cache.Reader != nil:
		return errors.New("ctrl.Options.Client.Cache.Reader: the client of a simulated manager reads from the manager's cache: leave it out")
	}
	return nil
}

// newClient makes the manager's client, as client.New of controller-runtime does with these options.
func (s *settings) newClient(live *liveClient, cache *cacheHandle, scheme *runtime.Scheme) (client.Client, error) {
	o := &s.options.Client
	caching := &cachingClient{liveClient: live, cache: cache, live: map[schema.GroupVersionKind]bool{}}
	if o.Cache != nil {
		caching.unstructured = o.Cache.Unstructured
		for _, obj := range o.Cache.DisableFor {
			gvk, err := apiutil.GVKForObject(obj, scheme)
			if err != nil {
				return nil, err
			}
			caching.live[gvk] = true
		}
	}
	var c client.Client = caching
	if s.readYourWrites {
		c = newConsistentClient(caching, cache)
	}
	if o.DryRun != nil && *o.DryRun {
		c = client.NewDryRunClient(c)
	}
	if o.FieldOwner != "" {
		c = client.WithFieldOwner(c, o.FieldOwner)
	}
	if o.FieldValidation != "" {
		c = client.WithFieldValidation(c, client.FieldValidation(o.FieldValidation))
	}
	return c, nil
}
