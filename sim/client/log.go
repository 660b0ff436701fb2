package client

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// logSink writes an operator's log into the run's history, at virtual time.
type logSink struct {
	env    *sim.Env
	ctx    context.Context // the pass that lines belong to
	name   string
	values []string
}

var _ logr.LogSink = &logSink{}

// in returns the sink for a pass.
func (s *logSink) in(ctx context.Context) *logSink {
	pass := *s
	pass.ctx = ctx
	return &pass
}

// Init implements logr.LogSink.
func (s *logSink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. Controllers' own chatter starts at level 5.
func (s *logSink) Enabled(level int) bool { return level < 5 }

// Info implements logr.LogSink.
func (s *logSink) Info(level int, message string, values ...any) {
	s.env.Log(s.ctx, history.Log{Logger: s.name, Level: level, Message: message, Values: appendValues(s.values, values)})
}

// Error implements logr.LogSink.
func (s *logSink) Error(err error, message string, values ...any) {
	line := history.Log{Logger: s.name, Level: -1, Message: message, Values: appendValues(s.values, values)}
	if err != nil {
		line.Values = append(line.Values, "error="+err.Error())
	}
	s.env.Log(s.ctx, line)
}

// WithValues implements logr.LogSink.
func (s *logSink) WithValues(values ...any) logr.LogSink {
	clone := *s
	clone.values = appendValues(s.values, withoutReconcile(values))
	return &clone
}

// WithName implements logr.LogSink.
func (s *logSink) WithName(name string) logr.LogSink {
	clone := *s
	clone.name = name
	if s.name != "" {
		clone.name = s.name + "." + name
	}
	return &clone
}

// appendValues formats key/value pairs, in order.
func appendValues(formatted []string, values []any) []string {
	result := slices.Clip(formatted)
	for i := 0; i+1 < len(values); i += 2 {
		result = append(result, fmt.Sprint(values[i])+"="+formatValue(values[i+1]))
	}
	return result
}

// withoutReconcile leaves out what controller-runtime adds to the logger of a reconcile: the history knows controller and
// object, and the reconcile ID is random.
func withoutReconcile(values []any) []any {
	var rest []any
	for i := 0; i+1 < len(values); i += 2 {
		switch key, _ := values[i].(string); key {
		case "reconcileID", "controller", "controllerGroup", "controllerKind", "namespace", "name":
			continue
		}
		if _, isObject := values[i+1].(klog.ObjectRef); isObject {
			continue
		}
		rest = append(rest, values[i], values[i+1])
	}
	return rest
}

// formatValue formats a value without ever showing an address, so that a line is the same in every run.
func formatValue(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("<%T>", value) // a Stringer on a nil pointer, for instance
		}
	}()
	switch v := value.(type) {
	case nil:
		return "<nil>"
	case error:
		return v.Error()
	case client.Object:
		return client.ObjectKeyFromObject(v).String()
	case fmt.Stringer:
		return v.String()
	case string:
		return v
	case logr.Marshaler:
		return formatValue(v.MarshalLog())
	}
	switch reflect.TypeOf(value).Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Interface:
		if encoded, err := json.Marshal(value); err == nil {
			return string(encoded)
		}
		return fmt.Sprintf("<%T>", value)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return fmt.Sprintf("<%T>", value)
	default:
		return fmt.Sprint(value)
	}
}
