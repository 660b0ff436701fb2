package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// passRows makes the rows that say where a pass begins, and where it goes on after another of the same actor.
type passRows struct {
	current map[string]string // the pass each actor is in
	begun   map[string]bool
}

// next returns the row to write before a step, and false if its actor is in no pass, or in the same as before.
func (p *passRows) next(r *history.Record) (row, bool) {
	over := passOver(r)
	id := fmt.Sprintf("%s[%d] %s %d", r.Event.Actor, r.Event.Incarnation, over, r.Attempt)
	if over == "" || p.current[r.Event.Actor] == id {
		return row{}, false
	}
	if p.current == nil {
		p.current, p.begun = map[string]string{}, map[string]bool{}
	}
	p.current[r.Event.Actor] = id
	begin := row{at: r.At, actor: r.Event.Actor, text: fmt.Sprintf("%s, pass %d", over, r.Attempt), style: bold}
	if p.begun[id] {
		begin.text += " goes on"
		return begin, true
	}
	p.begun[id] = true
	begin.pass, begin.over = r.Attempt, over
	return begin, true
}

// passOver names what the pass of a step is over, empty if it belongs to none: "reconcile default/a", and before it the
// controller, where the actor has several.
func passOver(r *history.Record) string {
	switch {
	case r.Event.Key == "" || r.Attempt == 0:
		return ""
	case r.Event.Controller != "":
		return r.Event.Controller + ": reconcile " + r.Event.Key
	default:
		return "reconcile " + r.Event.Key
	}
}

// block is a row, or the rows of a pass with nothing of another actor in between.
type block struct {
	rows []row
	// same is equal for passes that did the same, and empty for what is never the same: no whole pass, or one that decides.
	same string
}

const (
	// minRepeats is how often passes must do the same, one after the other, to be told once.
	minRepeats = 4
	// maxPeriod is how many passes may alternate in that.
	maxPeriod = 3
)

// collapse tells passes that do the same again and again only once, as an operator has them that retries, or that notes
// the time.
func (t *timeline) collapse() {
	blocks := blocksOf(t.rows)
	t.rows = nil
	for len(blocks) > 0 {
		period, times := repeats(blocks)
		for _, b := range blocks[:period] {
			t.rows = append(t.rows, b.rows...)
		}
		if times > 1 {
			begin, last := blocks[period].rows[0], blocks[period*times-1].rows
			words := fmt.Sprintf("the same again, %d more times until %s", times-1, clock(last[len(last)-1].at))
			if period > 1 {
				words = fmt.Sprintf("the last %d passes again, %d more times until %s", period, times-1, clock(last[len(last)-1].at))
			}
			t.rows = append(t.rows, row{at: begin.at, actor: begin.actor, text: words, style: dim})
		}
		blocks = blocks[period*times:]
	}
}

// repeats returns how many blocks at the front repeat, and how often they come in all: 1 and 1 if they do not.
func repeats(blocks []block) (period, times int) {
	for period = 1; period <= maxPeriod && blocks[period-1].same != ""; period++ {
		first := blocks[:period]
		times = 1
		for (times+1)*period <= len(blocks) && slices.EqualFunc(first, blocks[times*period:(times+1)*period], sameBlock) {
			times++
		}
		if times >= minRepeats {
			return period, times
		}
		if period == len(blocks) {
			break
		}
	}
	return 1, 1
}

func sameBlock(a, b block) bool { return a.same != "" && a.same == b.same }

// blocksOf divides rows into blocks, in order.
func blocksOf(rows []row) []block {
	var blocks []block
	for len(rows) > 0 {
		n := 1
		for rows[0].pass > 0 && n < len(rows) && rows[n].actor == rows[0].actor && rows[n].pass == 0 {
			n++
		}
		blocks = append(blocks, block{rows: rows[:n], same: sameness(rows[:n])})
		rows = rows[n:]
	}
	return blocks
}

// sameness returns what must be equal in rows that are the same pass again: all but its number, times and values.
func sameness(rows []row) string {
	if rows[0].pass == 0 || slices.ContainsFunc(rows, func(r row) bool { return r.mark }) {
		return ""
	}
	words := []string{rows[0].actor, rows[0].over}
	for _, r := range rows[1:] {
		words = append(words, fmt.Sprint(r.text, " ", r.more))
	}
	return strings.Join(words, "\n")
}
