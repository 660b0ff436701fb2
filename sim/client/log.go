package client

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

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
	clone.values = appendValues(s.values, values)
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

// appendValues formats key/value pairs, in order. It leaves out what controller-runtime adds to every line of a
// reconcile: the history knows controller and object, and the reconcile ID is random.
func appendValues(formatted []string, values []any) []string {
	result := formatted[:len(formatted):len(formatted)]
	for i := 0; i+1 < len(values); i += 2 {
		key := fmt.Sprint(values[i])
		switch key {
		case "reconcileID", "controller", "controllerGroup", "controllerKind", "namespace", "name":
			continue
		}
		if _, isObject := values[i+1].(klog.ObjectRef); isObject {
			continue
		}
		result = append(result, key+"="+fmt.Sprint(values[i+1]))
	}
	return result
}
