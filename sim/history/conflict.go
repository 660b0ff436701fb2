package history

import "github.com/stalemate-dev/stalemate/sim/schedule"

// OfProcess reports whether the step is one of an operator under test, and not of a racer.
func (r *Record) OfProcess() bool { return r.Event.Incarnation > 0 }

// IsRelist reports whether the step is a new list, which an informer takes as its watch could not go on, and no initial one.
func (r *Record) IsRelist() bool { return r.Event.Verb == schedule.Sync && r.Fault == schedule.Relist }

// delivers reports whether the step moves a cache that actors may be reading already.
func (r *Record) delivers() bool { return r.Event.Verb == schedule.Deliver || r.IsRelist() }

// Conflict reports whether the order of two steps of different threads can matter: one of two requests for the same
// object committed, an actor reads its cache next to a delivery or a new list of what it reads, or an object is committed
// before an informer takes a list. The passes of a racer over several keys touch objects of their own, or are serialised.
//
// An initial list itself is not held, as a new one may be: a program that starts late is no other order, and gives up if it
// starts too late.
func Conflict(a, b *Record) bool {
	switch {
	case a.Event.Verb.IsRequest() && b.Event.Verb.IsRequest():
		return (a.Committed != 0 || b.Committed != 0) && (a.Event.Actor != b.Event.Actor || a.OfProcess()) && Touch(a, b)
	case a.delivers() && reads(b, a), b.delivers() && reads(a, b):
		return true
	case b.Event.Verb == schedule.Sync:
		return b.OfProcess() && a.Committed != 0 && Touch(a, b)
	case a.IsRelist():
		return a.OfProcess() && b.Committed != 0 && Touch(a, b)
	default:
		return false
	}
}

// Touch reports whether two steps are about the same object, or one lists what the other is about.
func Touch(a, b *Record) bool {
	if a.Event.Kind != b.Event.Kind {
		return false
	}
	nameA, nameB := a.objectName(), b.objectName()
	namespaces := a.Event.Namespace == b.Event.Namespace || a.Event.Namespace == "" || b.Event.Namespace == ""
	return namespaces && (nameA == nameB || nameA == "" || nameB == "")
}

// objectName returns the name of a step's object, also where the server generated it.
func (r *Record) objectName() string {
	if r.Event.Name == "" && r.Event.Verb == schedule.Create && r.After != nil {
		return r.After.GetName()
	}
	return r.Event.Name
}

// reads reports whether a step reads from the cache that a delivery moves. A racer reads its caches when it takes a key;
// what it may look at later in a pass, after an answer, is left to random walks.
func reads(r, delivery *Record) bool {
	if r.Event.Actor != delivery.Event.Actor || r.Event.Incarnation != delivery.Event.Incarnation {
		return false
	}
	switch r.Event.Verb {
	case schedule.CachedGet, schedule.CachedList:
		return Touch(r, delivery)
	case schedule.Dequeue:
		return r.Event.Incarnation == 0
	default:
		return false
	}
}
