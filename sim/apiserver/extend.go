package apiserver

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A kinds table in use is only read. What learns of kinds while its server runs, as a client of unit tests does, adds them to
// a clone and gives that to the server.

// Clone returns a table of the same kinds, to which others can be added. The rows are shared.
func (k *Kinds) Clone() *Kinds {
	clone := *k
	clone.rows = slices.Clone(k.rows)
	clone.byGVK, clone.byName, clone.byType = maps.Clone(k.byGVK), maps.Clone(k.byName), maps.Clone(k.byType)
	clone.established = slices.Clip(k.established)
	return &clone
}

// Extend gives the server a table that is a clone of its own, with more kinds or other rows for those it has.
func (s *Server) Extend(kinds *Kinds) { s.kinds = kinds }

// WithoutNamespaces puts a custom resource that has none in place of one of the table that has namespaces, and returns it. It is
// for kinds of which it is learnt late that they are like that, before there are objects of them.
func (k *Kinds) WithoutNamespaces(row *Kind) *Kind {
	return k.replace(row, func(other *Kind) { other.Namespaced = false })
}

// WithoutValidation puts a kind that accepts anything but bad metadata in place of one of the table. Its use is a fidelity gap.
func (k *Kinds) WithoutValidation(row *Kind) *Kind {
	nothing := func(_, _ Object, _ Version) field.ErrorList { return nil }
	return k.replace(row, func(other *Kind) {
		other.Validate, other.ValidateStatus = nothing, nothing
		other.gaps = append(slices.Clip(row.gaps), fmt.Sprintf("%s is not validated, as the test asks for", row))
	})
}

// replace puts a changed copy of a row in its place.
func (k *Kinds) replace(row *Kind, change func(*Kind)) *Kind {
	other := *row
	change(&other)
	other.fields = &fieldRules{kind: &other, aliases: row.fields.aliases}
	k.rows, k.byType = slices.Clone(k.rows), maps.Clone(k.byType) // other tables may have the same
	k.rows[row.order] = &other
	k.byGVK[row.GroupVersionKind] = &other
	for name, known := range k.byName {
		if known == row {
			k.byName[name] = &other
		}
	}
	if row.Type != nil {
		k.byType[row.Type] = &other
	}
	for _, alias := range slices.Clone(k.rows) {
		if alias.Alias != nil && alias.Alias.Of == row {
			k.replace(alias, func(view *Kind) { view.Alias = &Alias{Of: &other, To: alias.Alias.To, From: alias.Alias.From} })
		}
	}
	return &other
}
