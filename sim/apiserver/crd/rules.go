package crd

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RuleChecker checks the validation rules of a kind for a new object (old is nil) or an update. It is used by several goroutines
// at once.
type RuleChecker func(object, old map[string]any) field.ErrorList

// Rules is what there is to know of validation rules, which are written in CEL. The package crd/cel has it, and gives it to
// [EnableRules]: what it imports is large, and who does not need it does not have to link it.
type Rules struct {
	// Compile returns the checker of the rules of a schema, which has some.
	Compile func(*structural.Structural) RuleChecker
	// Review returns what is wrong with the rules of a schema, which has some and is found at a path of a definition.
	Review func(s *structural.Structural, at *field.Path) field.ErrorList
}

// rules are those that were enabled, nil for none.
var rules *Rules

// EnableRules has validation rules checked, of the definitions that are loaded from then on. It is meant for the init function of
// a package. Without it each rule is one of [Definition.Gaps].
func EnableRules(r Rules) { rules = &r }

// HasRules says whether the definition has validation rules that are checked.
func (d *Definition) HasRules() bool { return d.checker != nil }

// CheckRules checks the validation rules for an object that is otherwise valid, but for what was found. They are not checked
// where that says that a value has the wrong form: then the marker is returned that a real server adds; hasBlockingErr in
// pkg/registry/customresource/strategy.go of k8s.io/apiextensions-apiserver v1.36.
func (d *Definition) CheckRules(object, old map[string]any, found field.ErrorList) field.ErrorList {
	if d.checker == nil {
		return nil
	}
	if slices.ContainsFunc(found, blocksRules) {
		return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; "+
			"correct the existing errors to complete validation")}
	}
	return d.checker()(object, old)
}

func blocksRules(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
		field.ErrorTypeTypeInvalid:
		return true
	default:
		return false
	}
}

// noteRules adds a gap for each rule that is not checked.
func (c *compiler) noteRules(validations apiextensionsv1.ValidationRules, at *field.Path) {
	c.ruled = c.ruled || len(validations) > 0
	if rules != nil {
		return
	}
	for _, rule := range validations {
		c.definition.gaps = append(c.definition.gaps, fmt.Sprintf(
			"%s: the validation rule %q of %s is not checked: import sim/apiserver/crd/cel to have it checked",
			c.definition.name(), rule.Rule, at))
	}
}
