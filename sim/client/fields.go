package client

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// validateFields does what a server does with the fields of a body that its kind does not have, if the request says that they
// are to be looked for; pkg/endpoints/handlers/create.go of k8s.io/apiserver v1.36. Of a built-in, only an unstructured one can have some.
func (c *liveClient) validateFields(ctx context.Context, kind *apiserver.Kind, body client.Object, validation string) error {
	if validation != metav1.FieldValidationWarn && validation != metav1.FieldValidationStrict {
		return nil
	}
	unknown, err := unknownFields(kind, body)
	switch {
	case err != nil:
		return err
	case len(unknown) == 0:
		return nil
	case validation == metav1.FieldValidationStrict:
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", kind.Kind, kind.Version, kind.Kind,
			runtime.NewStrictDecodingError(unknown)))
	}
	for _, field := range unknown {
		c.warn(ctx, field.Error())
	}
	return nil
}

func unknownFields(kind *apiserver.Kind, obj client.Object) (unknown []error, err error) {
	if kind.Custom() {
		if kind.PruneUnknown == nil {
			return nil, nil
		}
		stored, err := kind.StoredCopy(obj)
		if err != nil {
			return nil, err
		}
		for _, path := range kind.PruneUnknown(stored) {
			unknown = append(unknown, fmt.Errorf("unknown field %q", path))
		}
		return unknown, nil
	}
	untyped, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, nil // a built-in's Go type has just its fields
	}
	data, err := json.Marshal(untyped.Object)
	if err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(data, reflect.New(kind.Type).Interface())
}

// warn logs a warning of the server, as controller-runtime's clients do: pkg/log/warning_handler.go.
func (c *liveClient) warn(ctx context.Context, text string) {
	if c.env == nil {
		return // who has a client without an engine asked for no log
	}
	c.env.Log(ctx, history.Log{Logger: "KubeAPIWarningLogger", Message: text})
}

// sentSelectors returns the selectors of a list as they come to the server: as texts, of which that of labels.Nothing is empty
// and chooses everything. Those that nobody can read are a bad request.
func sentSelectors(raw *metav1.ListOptions) (byLabel labels.Selector, byField fields.Selector, err error) {
	if raw.LabelSelector != "" {
		if byLabel, err = labels.Parse(raw.LabelSelector); err != nil {
			return nil, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if raw.FieldSelector != "" {
		if byField, err = fields.ParseSelector(raw.FieldSelector); err != nil {
			return nil, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return byLabel, byField, nil
}
