// Package reports turns what an exploration came to into something a person can act on.
//
// It reads a [history.Result] and never runs anything, so a report can be made again, in another form, from the same
// result. [Judge] says how a result came out; [Text] writes it for a terminal or a file.
//
// A text report answers, in this order, what an operator developer asks: what is wrong, which order of events causes
// it, what happened step by step, what the objects look like now, how far the verdict reaches, and how to see it again.
// Equal results give equal bytes.
package reports
