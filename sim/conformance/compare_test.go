package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/internal/recorded"
)

// meanings say which values of two servers mean the same: UIDs, revisions, generated names, addresses. A pair is bound where its values
// first stand in one place, and both sides keep to it from there on.
type meanings struct {
	ours, real map[string]string // each the other's value, by role and value
	revisions  [][2]int64        // real, ours
}

func newMeanings() *meanings {
	return &meanings{ours: map[string]string{}, real: map[string]string{}}
}

// same reports whether two values play the same role, and binds them if neither does yet.
func (m *meanings) same(role, real, ours string) bool {
	bound, a := m.ours[role+real]
	other, b := m.real[role+ours]
	if a || b {
		return a && b && bound == ours && other == real
	}
	m.ours[role+real], m.real[role+ours] = ours, real
	if role == revisionRole {
		r, err1 := strconv.ParseInt(real, 10, 64)
		o, err2 := strconv.ParseInt(ours, 10, 64)
		if err1 == nil && err2 == nil {
			m.revisions = append(m.revisions, [2]int64{r, o})
		}
	}
	return true
}

const revisionRole = "revision "

// ordered reports whether the revisions of both sides are in one order.
func (m *meanings) ordered() error {
	slices.SortFunc(m.revisions, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	for i := 1; i < len(m.revisions); i++ {
		if a, b := m.revisions[i-1], m.revisions[i]; a[1] >= b[1] {
			return fmt.Errorf("the real server's revisions %d and %d are %d and %d here", a[0], b[0], a[1], b[1])
		}
	}
	return nil
}

// difference is where two answers mean different things.
type difference struct {
	at         string // a path, without indexes
	real, ours string
}

func (d *difference) String() string {
	return fmt.Sprintf("at %s\n  real %s\n  ours %s", d.at, d.real, d.ours)
}

// nothing stands for a value that is not there.
type nothing struct{}

func (nothing) String() string { return "(nothing)" }

func differ(at string, real, ours any) *difference {
	show := func(v any) string { return strings.ToValidUTF8(fmt.Sprintf("%.1500v", fmt.Sprint(v)), "?") }
	return &difference{at: at, real: show(real), ours: show(ours)}
}

// compareAnswers compares what two servers answered.
func (m *meanings) compareAnswers(real, ours recorded.Response) *difference {
	if real.Code != ours.Code {
		return differ("code", fmt.Sprint(real.Code, " ", message(real.Body)), fmt.Sprint(ours.Code, " ", message(ours.Body)))
	}
	if d := m.texts("header Warning", real.Headers["Warning"], ours.Headers["Warning"]); d != nil {
		return d
	}
	if real.Raw != "" || ours.Raw != "" {
		return m.texts("raw", real.Raw, ours.Raw)
	}
	if real.Events != nil || ours.Events != nil {
		if expired(real.Events) {
			return nil // how far back a real server's caches reach depends on what else went on
		}
		return m.compare("events", real.Events, ours.Events)
	}
	return m.compare("", real.Body, ours.Body)
}

// expired reports whether a watch began too long ago.
func expired(events []any) bool {
	if len(events) == 0 {
		return false
	}
	event, _ := events[len(events)-1].(tree)
	object, _ := event["object"].(tree)
	return event["type"] == "ERROR" && object["reason"] == "Expired"
}

// message is what a Status says, or nothing much of something else.
func message(body any) any {
	if status, ok := body.(tree); ok && status["kind"] == "Status" {
		return fmt.Sprint(status["reason"], ": ", status["message"])
	}
	return ""
}

// compare compares two values and returns the first difference.
func (m *meanings) compare(at string, real, ours any) *difference {
	switch r := real.(type) {
	case tree:
		o, ok := ours.(tree)
		if !ok {
			return differ(at, real, ours)
		}
		return m.compareTrees(at, r, o)
	case []any:
		o, ok := ours.([]any)
		if !ok {
			return differ(at, real, ours)
		}
		for i := range min(len(r), len(o)) {
			if d := m.compare(at, r[i], o[i]); d != nil {
				return d
			}
		}
		if len(r) != len(o) {
			return differ(at+" (its length)", fmt.Sprint(len(r), " ", real), fmt.Sprint(len(o), " ", ours))
		}
		return nil
	case string:
		o, ok := ours.(string)
		if !ok {
			return differ(at, real, ours)
		}
		return m.texts(at, r, o)
	case float64:
		if port, ok := ours.(float64); ok && strings.HasSuffix(at, "odePort") && min(r, port) >= 30000 {
			return nil // one that was free
		}
		if real != ours {
			return differ(at, real, ours)
		}
		return nil
	default:
		if !reflect.DeepEqual(real, ours) {
			return differ(at, real, ours)
		}
		return nil
	}
}

func (m *meanings) compareTrees(at string, real, ours tree) *difference {
	sortCauses(real["causes"])
	sortCauses(ours["causes"])
	recorded.SortEntries(real["managedFields"])
	recorded.SortEntries(ours["managedFields"])
	names := slices.AppendSeq(slices.Collect(maps.Keys(real)), maps.Keys(ours))
	slices.Sort(names)
	_, isList := real["items"]
	for _, name := range slices.Compact(names) {
		r, inReal := real[name]
		o, inOurs := ours[name]
		if !inReal {
			r = nothing{}
		}
		if !inOurs {
			o = nothing{}
		}
		switch {
		case inReal != inOurs:
			return differ(join(at, name), r, o)
		case isList && name == "metadata":
			if d := m.compareList(r, o); d != nil {
				return d
			}
		default:
			if d := m.compare(join(at, name), r, o); d != nil {
				return d
			}
		}
	}
	return nil
}

// sortCauses puts the causes of a refusal in an order: nobody acts upon that which they come in.
func sortCauses(causes any) {
	list, _ := causes.([]any)
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// sortParts puts the parts of the message of a refusal in an order, for the same reason.
func sortParts(text string) string {
	head, list, found := strings.Cut(text, " is invalid: [")
	if !found {
		return text
	}
	parts := strings.Split(strings.TrimSuffix(list, "]"), ", ")
	slices.Sort(parts)
	return head + " is invalid: [" + strings.Join(parts, ", ") + "]"
}

func join(at, name string) string { return strings.TrimPrefix(at+"."+name, ".") }

// compareList compares the metadata of lists. Their revisions are those of the moment, in which others write too.
func (m *meanings) compareList(real, ours any) *difference {
	r, _ := real.(tree)
	o, _ := ours.(tree)
	if (r["continue"] == nil) != (o["continue"] == nil) {
		return differ("metadata.continue", r["continue"], o["continue"])
	}
	if !reflect.DeepEqual(r["remainingItemCount"], o["remainingItemCount"]) {
		return differ("metadata.remainingItemCount", r["remainingItemCount"], o["remainingItemCount"])
	}
	return nil
}

var (
	uidForm     = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`
	timeForm    = `\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| \+0000 UTC)`
	addressForm = `10\.\d+\.\d+\.\d+`
	nameForm    = `\bgen-\d+-[bcdfghjklmnpqrstvwxz2456789]{5}\b`
	word        = regexp.MustCompile(uidForm + "|" + timeForm + "|" + addressForm + "|" + nameForm + `|\d+`)
	uid         = regexp.MustCompile("^" + uidForm + "$")
	moment      = regexp.MustCompile("^" + timeForm + "$")
	address     = regexp.MustCompile("^" + addressForm + "$")
	name        = regexp.MustCompile("^" + nameForm + "$")
	digits      = regexp.MustCompile(`^\d+$`)
)

// texts compares two texts: what is between their changing parts is the same, and those mean the same.
func (m *meanings) texts(at, real, ours string) *difference {
	a, b := plain(real), plain(ours)
	if a == b && !strings.HasSuffix(at, "resourceVersion") && !uid.MatchString(a) {
		return nil
	}
	if word.ReplaceAllString(a, "*") != word.ReplaceAllString(b, "*") {
		return differ(at, real, ours)
	}
	as, bs := word.FindAllString(a, -1), word.FindAllString(b, -1)
	for i := range as {
		if !m.word(at, a, as[i], bs[i]) {
			return differ(at, real, ours)
		}
	}
	return nil
}

// dumped is an object that a message shows as a whole, with managedFields that one side may not keep.
var dumped = regexp.MustCompile(`Invalid value: "\{\\".*\}"`)

// plain returns a text without what does not count in it.
func plain(text string) string {
	return sortParts(dumped.ReplaceAllString(recorded.Plain(text), "Invalid value: {...}"))
}

// word compares two changing parts of a text.
func (m *meanings) word(at, text, real, ours string) bool {
	both := func(form *regexp.Regexp) bool { return form.MatchString(real) && form.MatchString(ours) }
	revision := strings.HasSuffix(at, "resourceVersion") || strings.Contains(strings.ToLower(text), "resourceversion") ||
		strings.Contains(text, "esource version") || strings.Contains(text, "metadata.resourceVersion")
	switch {
	case real == unused || ours == unused:
		return real == ours
	case both(uid):
		return m.same("uid ", real, ours)
	case both(moment):
		return true
	case both(name), both(address): // ours may give the same ones again
		return true
	case both(digits) && revision && real != ours, both(digits) && strings.HasSuffix(at, "resourceVersion"):
		return strings.Contains(text, "current: ") || m.same(revisionRole, real, ours)
	default:
		return real == ours
	}
}
