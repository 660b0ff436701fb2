// Package cel has the validation rules of custom resources checked, which are written in CEL. It is imported for that:
//
//	import _ "github.com/stalemate-dev/stalemate/sim/apiserver/crd/cel"
//
// From then on [crd.Load] compiles the x-kubernetes-validations of what it loads, and the API server checks them as a real one
// does, with the same library: transition rules and those with an optional oldSelf, messages, reasons and field paths, cost
// limits, and that an update is not refused for what it leaves as it was. What a definition's rules may cost at most is not
// estimated when it is loaded, as a real server does it when a definition is created.
//
// It is a package of its own because the library is large: about a hundred packages that who tests without such rules does not
// need. Without it every rule of a kind that is used is a fidelity gap, named in the verdict. Scenario files always have it on, and
// so have the command stalemate and sim/simtest, which load them: what a file means does not depend on who plays it.
package cel

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
)

func init() { crd.EnableRules(crd.Rules{Compile: compile, Review: review}) }

// compile returns the checker of the rules of a schema; customResourceStrategy in pkg/registry/customresource/strategy.go of
// k8s.io/apiextensions-apiserver v1.36.
func compile(s *structural.Structural) crd.RuleChecker {
	validator := schemacel.NewValidator(s, true, celconfig.PerCallLimit)
	return func(object, old map[string]any) field.ErrorList {
		if old == nil {
			errs, budget := validator.Validate(context.Background(), nil, s, object, nil, celconfig.RuntimeCELCostBudget)
			return inOrder(errs, budget)
		}
		pair := common.NewCorrelatedObject(object, old, &model.Structural{Structural: s})
		errs, budget := validator.Validate(context.Background(), nil, s, object, old, celconfig.RuntimeCELCostBudget,
			schemacel.WithRatcheting(pair))
		return inOrder(errs, budget)
	}
}

// inOrder puts errors into the order of their fields, as the library goes through objects in the random order of Go's maps: what is
// wrong with an object comes before what is wrong with its fields, and items come in the order of their list. What it had found when
// it ran out of its cost budget is any part of what there is, so only that it ran out is told.
func inOrder(errs field.ErrorList, budget int64) field.ErrorList {
	if budget < 0 {
		return field.ErrorList{field.Invalid(nil, "object",
			"validation failed due to running out of cost budget, no further validation rules will be run")}
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return slices.CompareFunc(steps(a), steps(b), compareSteps) })
	return errs
}

// steps splits the path of the field that an error is about: none is the object itself.
func steps(err *field.Error) []string {
	if err.Field == (*field.Path)(nil).String() {
		return nil
	}
	return strings.FieldsFunc(err.Field, func(r rune) bool { return strings.ContainsRune(".[]", r) })
}

// compareSteps compares indexes as numbers, and has them before names.
func compareSteps(a, b string) int {
	m, errA := strconv.Atoi(a)
	n, errB := strconv.Atoi(b)
	switch {
	case errA == nil && errB == nil:
		return cmp.Compare(m, n)
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	default:
		return strings.Compare(a, b)
	}
}

// review returns what is wrong with the rules of a schema: those that do not compile, and what only some may say; validation.go in
// pkg/apis/apiextensions/validation of k8s.io/apiextensions-apiserver v1.36.
func review(s *structural.Structural, at *field.Path) field.ErrorList {
	return reviewNode(s, at, true, nil)
}

// reviewNode reviews a schema and those below it. The path is that of the first schema above whose values have no old ones, nil
// for none: an item of a list that is no map has none.
func reviewNode(s *structural.Structural, at *field.Path, root bool, unpaired *field.Path) field.ErrorList {
	errs := reviewRules(s, at, root, unpaired)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		below := s.Properties[name]
		errs = append(errs, reviewNode(&below, at.Child("properties").Key(name), below.XEmbeddedResource, unpaired)...)
	}
	if s.Items != nil {
		if unpaired == nil && (s.XListType == nil || *s.XListType != "map") {
			unpaired = at
		}
		errs = append(errs, reviewNode(s.Items, at.Child("items"), s.Items.XEmbeddedResource, unpaired)...)
	}
	if a := s.AdditionalProperties; a != nil && a.Structural != nil {
		errs = append(errs, reviewNode(a.Structural, at.Child("additionalProperties"), a.Structural.XEmbeddedResource, unpaired)...)
	}
	return errs
}

// reviewRules reviews the rules of one schema.
func reviewRules(s *structural.Structural, at *field.Path, root bool, unpaired *field.Path) field.ErrorList {
	if len(s.XValidations) == 0 {
		return nil
	}
	at = at.Child("x-kubernetes-validations")
	environments := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	compiled, err := schemacel.Compile(s, model.SchemaDeclType(s, root), celconfig.PerCallLimit, environments,
		schemacel.NewExpressionsEnvLoader())
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}
	}
	var errs field.ErrorList
	for i, result := range compiled {
		rule, at := s.XValidations[i], at.Index(i)
		switch {
		case rule.Rule == "":
			errs = append(errs, field.Required(at.Child("rule"), "rule is not specified"))
		case result.Error != nil:
			errs = append(errs, field.Invalid(at.Child("rule"), rule.Rule, result.Error.Detail))
		case result.UsesOldSelf && unpaired != nil:
			errs = append(errs, field.Invalid(at.Child("rule"), rule.Rule,
				fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", unpaired)))
		case !result.UsesOldSelf && rule.OptionalOldSelf != nil:
			errs = append(errs, field.Invalid(at.Child("optionalOldSelf"), *rule.OptionalOldSelf,
				"may not be set if oldSelf is not used in rule"))
		}
		if result.MessageExpressionError != nil {
			errs = append(errs, field.Invalid(at.Child("messageExpression"), rule.MessageExpression, result.MessageExpressionError.Detail))
		}
	}
	return errs
}
