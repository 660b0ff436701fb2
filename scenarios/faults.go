package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// faultBlock configures the faults of a type.
type faultBlock interface {
	// params returns the parameters that the block stands for, one for each of its variants.
	params() []schedule.Params
	// set makes it the block of one variant.
	set(p schedule.Params)
	// validate checks what the block says.
	validate(v *validator, path *field.Path)
}

// blockName returns the field that configures faults of a type.
func blockName(t schedule.FaultType) string { return strings.ToLower(string(t[:1])) + string(t[1:]) }

// field returns the field that configures faults of a type; the zero value if it has none.
func (b *FaultBlocks) field(t schedule.FaultType) reflect.Value {
	return reflect.ValueOf(b).Elem().FieldByName(string(t))
}

// of returns the block of a type, nil if it is not set.
func (b *FaultBlocks) of(t schedule.FaultType) faultBlock {
	if f := b.field(t); f.IsValid() && !f.IsNil() {
		return f.Interface().(faultBlock)
	}
	return nil
}

// set makes the block of a type stand for parameters; if they are all the type's own, it is left out.
func (b *FaultBlocks) set(t schedule.FaultType, p schedule.Params) {
	f := b.field(t)
	if p == (schedule.Params{}) || !f.IsValid() {
		return
	}
	f.Set(reflect.New(f.Type().Elem()))
	f.Interface().(faultBlock).set(p)
}

// faults returns the faults of a type, without their places: one for each variant of its block.
func (b *FaultBlocks) faults(t schedule.FaultType) []schedule.Fault {
	block := b.of(t)
	if block == nil {
		return []schedule.Fault{{Type: t}}
	}
	var faults []schedule.Fault
	for _, params := range block.params() {
		faults = append(faults, schedule.Fault{Type: t, Params: params})
	}
	return faults
}

// variants returns the parameters for each value that a list of a block has; base itself if it has none.
func variants(base schedule.Params, values OneOrMore, set func(p *schedule.Params, value string)) []schedule.Params {
	if len(values) == 0 {
		return []schedule.Params{base}
	}
	all := make([]schedule.Params, len(values))
	for i, value := range values {
		all[i] = base
		set(&all[i], value)
	}
	return all
}

func setLayer(p *schedule.Params, value string) { p.Layer = schedule.Layer(value) }
func setMeans(p *schedule.Params, value string) { p.Means = schedule.Means(value) }
func setPoint(p *schedule.Params, value string) { p.Point = schedule.Point(value) }

// What the lists of blocks may have.
var (
	layers        = []schedule.Layer{schedule.Transport, schedule.Client}
	conflictMeans = []schedule.Means{schedule.Injected, schedule.CompetingWrite}
	lostMeans     = []schedule.Means{schedule.ConnectionLost, schedule.RequestTimeout}
	hookMeans     = []schedule.Means{schedule.ConnectionRefused, schedule.DeadlineExceeded}
	points        = []schedule.Point{schedule.BeforeCall, schedule.AfterCommit}
)

func (b *ConflictFault) params() []schedule.Params {
	return variants(schedule.Params{}, b.By, setMeans)
}
func (b *ConflictFault) set(p schedule.Params) { b.By = one(p.Means) }
func (b *ConflictFault) validate(v *validator, path *field.Path) {
	choices(v, b.By, conflictMeans, path.Child("by"))
}

func (b *ErrorFault) params() []schedule.Params {
	return variants(schedule.Params{RetryAfter: retryAfter(b.RetryAfter)}, b.Layer, setLayer)
}
func (b *ErrorFault) set(p schedule.Params) {
	b.Layer, b.RetryAfter = one(p.Layer), retryHeader(p.RetryAfter)
}
func (b *ErrorFault) validate(v *validator, path *field.Path) {
	choices(v, b.Layer, layers, path.Child("layer"))
	v.notNegative(b.RetryAfter, path.Child("retryAfter"))
}

func (b *LostResponseFault) params() []schedule.Params {
	return variants(schedule.Params{}, b.As, setMeans)
}
func (b *LostResponseFault) set(p schedule.Params) { b.As = one(p.Means) }
func (b *LostResponseFault) validate(v *validator, path *field.Path) {
	choices(v, b.As, lostMeans, path.Child("as"))
}

func (b *WebhookDenialFault) params() []schedule.Params {
	return []schedule.Params{{Webhook: b.Webhook}}
}
func (b *WebhookDenialFault) set(p schedule.Params) { b.Webhook = p.Webhook }
func (b *WebhookDenialFault) validate(v *validator, path *field.Path) {
	v.webhook(b.Webhook, path.Child("webhook"))
}

func (b *WebhookFailureFault) params() []schedule.Params {
	return variants(schedule.Params{Webhook: b.Webhook}, b.As, setMeans)
}
func (b *WebhookFailureFault) set(p schedule.Params) { b.Webhook, b.As = p.Webhook, one(p.Means) }
func (b *WebhookFailureFault) validate(v *validator, path *field.Path) {
	v.webhook(b.Webhook, path.Child("webhook"))
	choices(v, b.As, hookMeans, path.Child("as"))
}

// webhook checks the name of an admission webhook, which may be left out.
func (v *validator) webhook(name string, path *field.Path) {
	if name != "" {
		v.errs = append(v.errs, validation.IsFullyQualifiedName(path, name)...)
	}
}

func (b *AppliedTwiceFault) params() []schedule.Params {
	return []schedule.Params{{RetryAfter: retryAfter(b.RetryAfter)}}
}
func (b *AppliedTwiceFault) set(p schedule.Params) { b.RetryAfter = retryHeader(p.RetryAfter) }
func (b *AppliedTwiceFault) validate(v *validator, path *field.Path) {
	v.positive(b.RetryAfter, path.Child("retryAfter"))
}

func (b *DelayFault) params() []schedule.Params {
	return variants(schedule.Params{For: duration(b.For)}, b.At, setPoint)
}
func (b *DelayFault) set(p schedule.Params) { b.For, b.At = span(p.For), one(p.Point) }
func (b *DelayFault) validate(v *validator, path *field.Path) {
	v.positive(b.For, path.Child("for"))
	choices(v, b.At, points, path.Child("at"))
}

func (b *SpanFault) params() []schedule.Params               { return []schedule.Params{{For: duration(b.For)}} }
func (b *SpanFault) set(p schedule.Params)                   { b.For = span(p.For) }
func (b *SpanFault) validate(v *validator, path *field.Path) { v.positive(b.For, path.Child("for")) }

func (b *CacheLagFault) params() []schedule.Params { return []schedule.Params{{For: duration(b.Max)}} }
func (b *CacheLagFault) set(p schedule.Params)     { b.Max = span(p.For) }
func (b *CacheLagFault) validate(v *validator, path *field.Path) {
	v.positive(b.Max, path.Child("max"))
}

func (b *CrashFault) params() []schedule.Params {
	return variants(schedule.Params{For: duration(b.RestartAfter)}, b.At, setPoint)
}
func (b *CrashFault) set(p schedule.Params) { b.At, b.RestartAfter = one(p.Point), span(p.For) }
func (b *CrashFault) validate(v *validator, path *field.Path) {
	choices(v, b.At, points, path.Child("at"))
	v.positive(b.RestartAfter, path.Child("restartAfter"))
}

func (b *UpgradeFault) params() []schedule.Params {
	return variants(schedule.Params{For: duration(b.RestartAfter), Reconciler: b.Reconciler}, b.At, setPoint)
}
func (b *UpgradeFault) set(p schedule.Params) {
	b.Reconciler, b.At, b.RestartAfter = p.Reconciler, one(p.Point), span(p.For)
}
func (b *UpgradeFault) validate(v *validator, path *field.Path) {
	v.reconciler(b.Reconciler, path.Child("reconciler"))
	choices(v, b.At, points, path.Child("at"))
	v.positive(b.RestartAfter, path.Child("restartAfter"))
}

// one returns a list of the value, empty if there is none.
func one[T ~string](value T) OneOrMore {
	if value == "" {
		return nil
	}
	return OneOrMore{string(value)}
}

// span returns a duration as a file has it; zero is left out.
func span(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}

// retryAfter converts the header Retry-After: a file leaves it out for that of the type, and says 0s for none.
func retryAfter(d *metav1.Duration) time.Duration {
	if d != nil && d.Duration == 0 {
		return -1
	}
	return duration(d)
}

// retryHeader is the inverse of [retryAfter].
func retryHeader(d time.Duration) *metav1.Duration {
	if d < 0 {
		return &metav1.Duration{}
	}
	return span(d)
}

// choices checks a list of a block: that all values are known, and none is there twice.
func choices[T ~string](v *validator, values OneOrMore, known []T, path *field.Path) {
	for i, value := range values {
		at := path
		if len(values) > 1 || value == "" { // which may be reported as no string
			at = path.Index(i)
		}
		if oneOf(v, T(value), known, at) && slices.Index(values, value) < i {
			v.add(field.Duplicate(at, value))
		}
	}
}

// faults checks the rules of faults.
func (v *validator) faults(path *field.Path) {
	faults := v.spec.Faults
	if faults == nil {
		return
	}
	if faults.MaxFaults != nil && *faults.MaxFaults <= 0 {
		v.add(field.Invalid(path.Child("maxFaults"), *faults.MaxFaults, "must be greater than 0; leave it out for 1"))
	}
	v.positive(faults.HealAfter, path.Child("healAfter"))
	if len(faults.Rules) == 0 {
		v.add(field.Required(path.Child("rules"), "say which faults may strike, or leave spec.faults out"))
	}
	taken := sets.New[string]()
	for i := range faults.Rules {
		rule, path := &faults.Rules[i], path.Child("rules").Index(i)
		v.label(rule.Name, path.Child("name"))
		if rule.Name != "" && taken.Has(rule.Name) {
			v.add(field.Duplicate(path.Child("name"), rule.Name))
		}
		taken.Insert(rule.Name)
		v.rule(rule, path)
	}
}

// rule checks the union of a rule, and that its selector can match.
func (v *validator) rule(rule *FaultRule, path *field.Path) {
	if rule.Max != nil && *rule.Max <= 0 {
		v.add(field.Invalid(path.Child("max"), *rule.Max, "must be greater than 0; leave it out for spec.faults.maxFaults"))
	}
	before := len(v.errs)
	if len(rule.Types) == 0 {
		v.fault(rule.Type, &rule.FaultBlocks, path)
	} else if rule.Type != "" {
		v.add(field.Forbidden(path.Child("types"), "give type or types, not both"))
	}
	for i, t := range rule.Types {
		at := path.Child("types").Index(i)
		if slices.Index(rule.Types, t) < i {
			v.add(field.Duplicate(at, t))
		}
		v.listedFault(t, &rule.FaultBlocks, at, path)
	}
	if rule.Match == nil {
		return
	}
	match := path.Child("match")
	v.selector(*rule.Match, requestVerbs, match)
	if len(v.errs) > before {
		return
	}
	for _, t := range rule.faultTypes() {
		v.canStrike(t, rule.Match.selector(), rule.Match.Verb != "", match)
	}
}

// faultTypes returns the types of a rule, however it writes them.
func (r *FaultRule) faultTypes() []schedule.FaultType {
	if len(r.Types) > 0 {
		return r.Types
	}
	return []schedule.FaultType{r.Type}
}

// fault checks the union of a type and its block, which are fields of what stands at a path.
func (v *validator) fault(t schedule.FaultType, blocks *FaultBlocks, path *field.Path) {
	before := len(v.errs)
	if !oneOf(v, t, schedule.FaultTypes(), path.Child("type")) {
		return
	}
	for _, other := range schedule.FaultTypes() {
		if other != t && blocks.of(other) != nil {
			v.add(field.Forbidden(path.Child(blockName(other)), fmt.Sprintf("this is not for a fault of type %s", t)))
		}
	}
	if block := blocks.of(t); block != nil {
		block.validate(v, path.Child(blockName(t)))
	} else if t == schedule.Upgrade {
		v.add(field.Required(path.Child(blockName(t)), "name the reconciler that starts in place of the old one"))
	}
	if len(v.errs) > before {
		return
	}
	for _, fault := range blocks.faults(t) {
		if err := reactors.Validate(fault); err != nil {
			message := strings.ReplaceAll(err.Error(), "fault "+string(t)+": ", "")
			v.addOnce(field.Invalid(path.Child(blockName(t)), t, strings.ReplaceAll(message, "\n", "; ")))
		}
	}
}

// listedFault checks one of several types in a rule. They have no blocks, as these would be for one of them only.
func (v *validator) listedFault(t schedule.FaultType, blocks *FaultBlocks, at, rule *field.Path) {
	oneOf(v, t, schedule.FaultTypes(), at)
	if t == schedule.Upgrade {
		v.add(field.Invalid(at, t, "it needs its block: write a rule with type: "+string(t)))
	}
	for _, configured := range schedule.FaultTypes() {
		if blocks.of(configured) != nil {
			v.addOnce(field.Forbidden(rule.Child(blockName(configured)),
				"types have no blocks: write a rule with type: "+string(configured)))
		}
	}
}

// addOnce adds an error unless it is the same as one that was added.
func (v *validator) addOnce(err *field.Error) {
	for _, known := range v.errs {
		if known.Error() == err.Error() {
			return
		}
	}
	v.add(err)
}

// canStrike checks that a fault can strike at events which a selector chooses. single says that it has a verb, not verbs.
func (v *validator) canStrike(t schedule.FaultType, s schedule.Selector, single bool, path *field.Path) {
	verbs := strikes(t, s)
	wanted := slices.ContainsFunc(verbs, func(verb schedule.Verb) bool { return len(s.Verbs) == 0 || slices.Contains(s.Verbs, verb) })
	process := slices.ContainsFunc(v.spec.Controllers, func(c Controller) bool { return s.Actor == "" || s.Actor == c.Name })
	switch {
	case (t == schedule.Crash || t == schedule.Upgrade) && !process:
		v.add(field.Invalid(path.Child("actor"), s.Actor, fmt.Sprintf("only processes %s: name a controller", lowerFirst(string(t)))))
	case slices.Contains(verbs, schedule.Deliver):
		v.delivers(t, s, path)
	case len(verbs) == 0:
		v.add(field.Invalid(path.Child("subresource"), *s.Subresource, fmt.Sprintf("a %s never strikes at it", t)))
	case !wanted:
		name := "verbs"
		if single {
			name = "verb"
		}
		v.add(field.Invalid(path.Child(name), joinVerbs(s.Verbs),
			fmt.Sprintf("a %s never strikes there; it strikes at %s", t, joinVerbs(verbs))))
	}
}

// strikes returns the verbs at which a fault can strike, whatever verbs the selector has.
func strikes(t schedule.FaultType, s schedule.Selector) []schedule.Verb {
	var verbs []schedule.Verb
	for _, verb := range append(slices.Clone(requestVerbs), string(schedule.Deliver)) {
		event := schedule.Event{Actor: "any", Incarnation: 1, Verb: schedule.Verb(verb), Kind: "Any"}
		switch event.Verb {
		case schedule.List, schedule.Watch, schedule.DeleteCollection: // are about a kind
		default:
			event.Name = "any"
		}
		if s.Subresource != nil && event.Verb != schedule.Deliver {
			event.Subresource = *s.Subresource
		}
		if t.Strikes(event) {
			verbs = append(verbs, event.Verb)
		}
	}
	return verbs
}

// delivers checks a selector of deliveries to informers, which have neither a verb to choose nor a key nor a subresource.
func (v *validator) delivers(t schedule.FaultType, s schedule.Selector, path *field.Path) {
	hint := fmt.Sprintf("leave it out: a %s strikes at what an informer is told, whatever was done", t)
	if len(s.Verbs) > 0 && !slices.Contains(s.Verbs, schedule.Deliver) {
		v.add(field.Invalid(path.Child("verbs"), joinVerbs(s.Verbs), hint))
	}
	if s.Key != "" {
		v.add(field.Invalid(path.Child("key"), s.Key, hint))
	}
	if s.Subresource != nil && *s.Subresource != "" {
		v.add(field.Invalid(path.Child("subresource"), *s.Subresource, hint))
	}
}

func joinVerbs(verbs []schedule.Verb) string {
	words := make([]string, len(verbs))
	for i, verb := range verbs {
		words[i] = string(verb)
	}
	return strings.Join(words, ", ")
}

// simFaults converts the faults of a scenario; defaults are left to the engine.
func (f *Faults) simFaults() sim.Faults {
	if f == nil {
		return sim.Faults{}
	}
	faults := sim.Faults{Max: number(f.MaxFaults), HealAfter: duration(f.HealAfter)}
	for i := range f.Rules {
		rule := &f.Rules[i]
		converted := sim.FaultRule{Name: rule.Name, Max: number(rule.Max)}
		if rule.Match != nil {
			converted.Match = rule.Match.selector()
		}
		for _, t := range rule.faultTypes() {
			converted.Faults = append(converted.Faults, rule.FaultBlocks.faults(t)...)
		}
		faults.Rules = append(faults.Rules, converted)
	}
	return faults
}

// number returns a number that may be left out.
func number(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// upgrade is a reconciler that may start in place of a process's own.
type upgrade struct {
	actor      string // empty for all processes
	reconciler string
	// doc and path are the field that names it.
	doc  *document
	path string
}

// upgrades returns those that the scenario's rules may bring about.
func (s *Scenario) upgrades() []upgrade {
	var all []upgrade
	if s.Manifest.Spec.Faults == nil {
		return nil
	}
	for i, rule := range s.Manifest.Spec.Faults.Rules {
		if rule.Upgrade == nil {
			continue
		}
		u := upgrade{
			reconciler: rule.Upgrade.Reconciler,
			doc:        s.doc,
			path:       fmt.Sprintf("spec.faults.rules[%d].upgrade.reconciler", i),
		}
		if rule.Match != nil {
			u.actor = rule.Match.Actor
		}
		all = append(all, u)
	}
	return all
}
