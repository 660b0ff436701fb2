// Package manifest has what the loaders of YAML manifests share.
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Each calls a function with every document of a YAML or JSON text, as JSON, and with its place, "document[1]". Documents that are
// empty are passed over and not counted. It collects what the function finds wrong: the error's Unwrap() []error are *field.Error
// values.
func Each(text []byte, load func(document []byte, at *field.Path) field.ErrorList) error {
	var errs field.ErrorList
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for i := 0; ; {
		at := field.NewPath("document").Index(i)
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			errs = append(errs, field.Invalid(at, "", err.Error()))
			break
		}
		data, err := yaml.YAMLToJSONStrict(document)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at, "", strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")))
		case string(data) == "null":
			continue
		default:
			errs = append(errs, load(data, at)...)
		}
		i++
	}
	if len(errs) > 0 {
		return failure(errs)
	}
	return nil
}

// failure is what is wrong with a text.
type failure field.ErrorList

// Error lists the errors, one a line.
func (f failure) Error() string {
	lines := make([]string, len(f))
	for i, err := range f {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the *field.Error values.
func (f failure) Unwrap() []error {
	all := make([]error, len(f))
	for i, err := range f {
		all[i] = err
	}
	return all
}
