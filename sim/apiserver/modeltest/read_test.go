package modeltest

import (
	"fmt"
	"strings"
)

func (m *model) get(r *request) want {
	revision, ok := parseRevision(r.query["resourceVersion"])
	e := m.objects[r.key()]
	switch {
	case ok && revision > m.revision:
		return tooEarly
	case e == nil:
		return absent(r.key())
	default:
		return okay(e.obj)
	}
}

func (m *model) list(r *request, got answer) want {
	q := r.query
	text, exact := q["resourceVersion"], q["resourceVersionMatch"] == "Exact"
	limit := 0
	_, _ = fmt.Sscan(q["limit"], &limit)
	revision, isNumber := parseRevision(text)
	switch {
	case q["resourceVersionMatch"] != "" && (text == "" || q["continue"] != "" || exact && text == "0"):
		return invalid
	case !r.kind.selectable(q["fieldSelector"]):
		return badRequest
	case q["continue"] != "":
		return m.nextPage(r, limit, got)
	case text != "" && !isNumber:
		return badRequest
	case revision > m.revision:
		return tooEarly
	case q["resourceVersionMatch"] == "" && revision > 0 && limit > 0:
		exact = true
	}
	if text == "0" {
		limit = 0
	}
	if !exact {
		revision = m.revision
	} else if revision < m.compacted {
		return gone
	}
	return m.page(r, revision, key{}, limit, got)
}

func (m *model) nextPage(r *request, limit int, got answer) want {
	t, known := m.tokens[r.query["continue"]]
	text := r.query["resourceVersion"]
	switch {
	case !known, text != "" && text != "0":
		return badRequest
	case t.revision >= 0 && t.revision < m.compacted:
		if next := continueOf(got.body); next != "" {
			m.tokens[next] = token{revision: -1, after: t.after}
		}
		return gone
	case t.revision < 0:
		t.revision = m.revision
	}
	if text == "0" {
		limit = 0
	}
	return m.page(r, t.revision, t.after, limit, got)
}

func continueOf(body tree) string { return text(body, "metadata", "continue") }

// page is a part of a list: what matches after a key, up to a limit.
func (m *model) page(r *request, revision int64, after key, limit int, got answer) want {
	w := want{code: 200, list: true, listed: revision, left: -1}
	plain := r.query["labelSelector"] == "" && r.query["fieldSelector"] == ""
	objects := m.at(r.kind, revision)
	for i, obj := range objects {
		name := keyOf(r.kind, obj)
		inside := r.namespace == "" || r.namespace == name.namespace
		one, exact := strings.CutPrefix(r.query["fieldSelector"], "metadata.name=")
		if exact && r.query["continue"] == "" {
			inside = inside && name.name == one
		}
		if after.name != "" && name.compare(after) <= 0 || !inside {
			continue
		}
		if limit == 0 || len(w.items) < limit {
			if r.matches(obj) {
				w.items = append(w.items, obj)
			}
			continue
		}
		w.more = &token{revision: revision, after: keyOf(r.kind, w.items[limit-1])}
		if plain {
			w.left = 0
			for _, rest := range objects[i:] {
				if r.matches(rest) {
					w.left++
				}
			}
		}
		if next := continueOf(got.body); next != "" {
			m.tokens[next] = *w.more
		}
		break
	}
	return w
}

// matches reports whether a request is about an object: by its namespace and selectors.
func (r *request) matches(obj tree) bool {
	if r.namespace != "" && r.namespace != text(obj, "metadata", "namespace") {
		return false
	}
	labels := fields(obj, "metadata", "labels")
	for _, term := range terms(r.query["labelSelector"]) {
		if !term.holds(func(name string) (string, bool) { value, ok := labels[name].(string); return value, ok }) {
			return false
		}
	}
	for _, term := range terms(r.query["fieldSelector"]) {
		if !term.holds(func(name string) (string, bool) { return r.kind.field(obj, name), true }) {
			return false
		}
	}
	return true
}

// field is the value of an object that a field selector names.
func (k *kind) field(obj tree, name string) string {
	path, ok := k.selectors[name]
	if !ok {
		path = name
	}
	return text(obj, strings.Split(path, ".")...)
}

func (k *kind) selectable(selector string) bool {
	for _, term := range terms(selector) {
		if _, ok := k.selectors[term.name]; !ok && term.name != "metadata.name" && term.name != "metadata.namespace" {
			return false
		}
	}
	return true
}

// term is one requirement of a selector.
type term struct{ name, operator, value string }

// terms reads a selector: name, !name, name=value, name!=value, "name in (a)" and "name notin (a)".
func terms(selector string) []term {
	var all []term
	for part := range strings.SplitSeq(selector, ",") {
		switch {
		case part == "":
		case strings.Contains(part, " "):
			words := strings.Fields(part)
			all = append(all, term{words[0], words[1], strings.Trim(words[2], "()")})
		case strings.Contains(part, "!="):
			name, value, _ := strings.Cut(part, "!=")
			all = append(all, term{name, "notin", value})
		case strings.Contains(part, "="):
			name, value, _ := strings.Cut(part, "=")
			all = append(all, term{name, "in", value})
		case part[0] == '!':
			all = append(all, term{part[1:], "absent", ""})
		default:
			all = append(all, term{part, "exists", ""})
		}
	}
	return all
}

// holds reports whether a requirement holds for the values that a function looks up.
func (t term) holds(lookup func(string) (string, bool)) bool {
	value, ok := lookup(t.name)
	switch t.operator {
	case "in":
		return ok && value == t.value
	case "notin":
		return !ok || value != t.value
	case "exists":
		return ok
	default:
		return !ok
	}
}
