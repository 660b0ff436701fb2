package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The parts of an event's text that are words of their own.
const (
	returnOf   = "return of " // before the verb: the way back of a response
	noKind     = "-"          // in place of a kind, before a name: there is none
	withObject = "on "        // after a verb whose events have no object: this one has
)

// text returns the event on one line, with actor, verb and object as they are to be written.
func (e Event) text(actor, verb, object string) string {
	var b strings.Builder
	b.WriteString(actor)
	if e.Incarnation > 1 {
		b.WriteString("[" + strconv.Itoa(e.Incarnation) + "]")
	}
	if e.Controller != "" {
		b.WriteString("/" + escape(e.Controller, " (", 0))
	}
	if e.Key != "" {
		b.WriteString("(" + escape(e.Key, ")", 0) + ")")
	}
	b.WriteByte(' ')
	if e.Return {
		b.WriteString(returnOf)
	}
	b.WriteString(verb)
	if object != "" {
		b.WriteString(" " + object)
	}
	if e.Occurrence > 0 {
		b.WriteString(" #" + strconv.Itoa(e.Occurrence))
	}
	return b.String()
}

// objectText returns what stands between the verb and the occurrence, which [Event.parseObject] reads.
func (e *Event) objectText() string {
	bare := e.Kind == "" && e.Subresource == "" && e.Namespace == ""
	if bare && e.Name == "" {
		return ""
	}
	if bare && !e.Verb.hasObject() {
		return escapePrefix(escape(e.Name, "", ' '), withObject)
	}
	kind := escapePrefix(escape(e.Kind, " /", 0), "#")
	if kind == noKind {
		kind = escapePrefix(kind, noKind)
	}
	if e.Subresource != "" {
		kind += "/" + escape(e.Subresource, " ", 0)
	}
	if kind == "" {
		kind = noKind
	}
	if !e.Verb.hasObject() {
		kind = withObject + kind
	}
	switch {
	case e.Namespace != "":
		return kind + " " + escape(e.Namespace, "/", ' ') + "/" + escape(e.Name, "", ' ')
	case e.Name != "":
		return kind + " " + escape(e.Name, "/", ' ')
	default:
		return kind
	}
}

// escape writes the special characters of a field, percent signs and control characters as %2F. A "#" at the begin of the
// field, or after a blank, would be taken for an occurrence; only fields that may hold blanks say so.
func escape(field, special string, blank byte) string {
	var b strings.Builder
	written := 0
	for i := range len(field) {
		c := field[i]
		occurrence := c == '#' && blank != 0 && (i == 0 || field[i-1] == blank)
		if c != '%' && c >= ' ' && c != 0x7f && !occurrence && strings.IndexByte(special, c) < 0 {
			continue
		}
		b.WriteString(field[written:i])
		fmt.Fprintf(&b, "%%%02X", c)
		written = i + 1
	}
	if written == 0 {
		return field
	}
	return b.String() + field[written:]
}

// escapePrefix escapes the first character of a field that begins like a word of its own.
func escapePrefix(field, prefix string) string {
	if strings.HasPrefix(field, prefix) {
		return fmt.Sprintf("%%%02X", field[0]) + field[1:]
	}
	return field
}

// unescape undoes escape.
func unescape(text string) (string, error) {
	i := strings.IndexByte(text, '%')
	if i < 0 {
		return text, nil
	}
	var b strings.Builder
	for ; i >= 0; i = strings.IndexByte(text, '%') {
		b.WriteString(text[:i])
		if len(text) < i+3 {
			return "", fmt.Errorf("%q is cut short: a percent sign itself is written %%25", text[i:])
		}
		code, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%q is no escape: two hexadecimal digits must follow; a percent sign itself is written %%25",
				text[i:i+3])
		}
		b.WriteByte(byte(code))
		text = text[i+3:]
	}
	return b.String() + text, nil
}

// ParseEvent reads an event as [Event.String] writes it. The incarnation is zero where the text has none: an actor's first
// start is not written, and whether an actor is a process is known to the scenario; see sim.Config.Complete.
func ParseEvent(text string) (Event, error) {
	var e Event
	rest, err := e.parseActor(text)
	if err == nil {
		rest, err = e.parseVerb(rest)
	}
	if err == nil {
		rest, err = e.parseOccurrence(rest)
	}
	if err == nil {
		err = e.parseObject(rest)
	}
	if err != nil {
		return Event{}, fmt.Errorf("event %q: %w", text, err)
	}
	return e, nil
}

// parseActor reads "operator[2]/web(default/a) " and returns what follows.
func (e *Event) parseActor(text string) (rest string, err error) {
	end := strings.IndexAny(text, " /([")
	switch {
	case end < 0:
		return "", errors.New("there is no verb: write an actor and a verb, like \"operator Update\"")
	case end == 0:
		return "", errors.New("there is no actor: begin with its name, like \"operator Update\"")
	}
	if e.Actor, err = unescape(text[:end]); err != nil {
		return "", fmt.Errorf("actor: %w", err)
	}
	text = text[end:]
	if text[0] == '[' {
		number, rest, _ := strings.Cut(text[1:], "]")
		if e.Incarnation, err = parseNumber(number); err != nil {
			return "", fmt.Errorf("incarnation: %w", err)
		}
		if e.Incarnation == 1 {
			e.Incarnation = 0 // as if it were not written
		}
		text = rest
	}
	if strings.HasPrefix(text, "/") {
		end := strings.IndexAny(text, " (")
		if end < 2 {
			return "", errors.New("no name of a controller follows the slash after the actor, or no verb follows that")
		}
		if e.Controller, err = unescape(text[1:end]); err != nil {
			return "", fmt.Errorf("controller: %w", err)
		}
		text = text[end:]
	}
	if strings.HasPrefix(text, "(") {
		end := strings.IndexByte(text, ')')
		if end < 2 {
			return "", errors.New("key: no key in closed parentheses follows the actor")
		}
		if e.Key, err = unescape(text[1:end]); err != nil {
			return "", fmt.Errorf("key: %w", err)
		}
		text = text[end+1:]
	}
	if !strings.HasPrefix(text, " ") {
		return "", errors.New("no blank follows the actor")
	}
	return text[1:], nil
}

// parseVerb reads "return of Update" and returns what follows.
func (e *Event) parseVerb(text string) (rest string, err error) {
	text, e.Return = strings.CutPrefix(text, returnOf)
	end := strings.IndexByte(text, ' ')
	if end < 0 {
		end = len(text)
	}
	if e.Verb = Verb(text[:end]); !slices.Contains(verbs, e.Verb) {
		return "", fmt.Errorf("unknown verb %q: use one of %v", text[:end], verbs)
	}
	return text[end:], nil
}

// parseOccurrence reads " #2" at the end and returns what is before it.
func (e *Event) parseOccurrence(text string) (rest string, err error) {
	at := strings.LastIndex(text, " #")
	if at < 0 {
		return text, nil
	}
	if e.Occurrence, err = parseNumber(text[at+2:]); err != nil {
		return "", fmt.Errorf("occurrence: %w", err)
	}
	return text[:at], nil
}

// parseObject reads what stands between the verb and the occurrence.
func (e *Event) parseObject(text string) (err error) {
	if text == "" {
		return nil
	}
	text = text[1:] // the blank that ended the verb
	if text == "" || strings.HasPrefix(text, "#") || strings.Contains(text, " #") {
		return errors.New("one object may follow the verb, like \"Pod default/web-0\", and one occurrence at the end, like \"#2\"")
	}
	if !e.Verb.hasObject() {
		var ok bool
		if text, ok = strings.CutPrefix(text, withObject); !ok {
			if e.Name, err = unescape(text); err != nil {
				return fmt.Errorf("name: %w", err)
			}
			return nil
		}
	}
	kind, name, named := strings.Cut(text, " ")
	if kind == "" || named && name == "" {
		return errors.New("kind and name are to be separated by one blank, like \"Pod default/web-0\"")
	}
	kind, subresource, _ := strings.Cut(kind, "/")
	if kind == noKind && subresource == "" {
		kind = ""
	}
	namespace, name, inNamespace := cutNamespace(name)
	if inNamespace && namespace == "" {
		return errors.New("namespace: there is none before the slash: leave out the slash for an object without a namespace")
	}
	for _, field := range []struct {
		name, text string
		to         *string
	}{{"kind", kind, &e.Kind}, {"subresource", subresource, &e.Subresource}, {"namespace", namespace, &e.Namespace},
		{"name", name, &e.Name}} {
		if *field.to, err = unescape(field.text); err != nil {
			return fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return nil
}

func cutNamespace(text string) (namespace, name string, ok bool) {
	if namespace, name, ok = strings.Cut(text, "/"); ok {
		return namespace, name, true
	}
	return "", text, false
}

// parseNumber reads a number from 1, in plain digits.
func parseNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || strconv.Itoa(n) != text {
		return 0, fmt.Errorf("%q is no number from 1", text)
	}
	return n, nil
}
