package racer

// maxBatch is the largest number of pods that a set with parallel pod management works on at a time.
const maxBatch = 500

// slowStart counts through work that starts slowly, 1, 2, 4 and so on at a time, and stops after a batch in which something
// failed: slowStartBatch of pkg/controller/replicaset and pkg/controller/statefulset, manageJob of pkg/controller/job (v1.36.3).
// What the real controllers do at the same time, a batch, comes one after the other here.
type slowStart struct {
	total int // of the pieces of work
	limit int // of the size of a batch; zero means none

	size, end int // of the present batch; the end counts from the beginning of the work
	done      int
	errs      []error
}

func newSlowStart(total, limit int) slowStart {
	return slowStart{total: total, limit: limit, size: 1, end: min(1, total)}
}

// note takes the outcome of the next piece of work.
func (s *slowStart) note(err error) {
	s.done++
	if err != nil {
		s.errs = append(s.errs, err)
	}
	if s.done < s.end || len(s.errs) > 0 {
		return
	}
	s.size *= 2
	if s.limit > 0 {
		s.size = min(s.size, s.limit)
	}
	s.end = min(s.end+s.size, s.total)
}

// firstError returns the first error there was, or nil.
func (s *slowStart) firstError() error {
	if len(s.errs) == 0 {
		return nil
	}
	return s.errs[0]
}

// missing returns how many pieces were not done, or not well.
func (s *slowStart) missing() int { return s.total - s.done + len(s.errs) }

// over reports whether there is nothing more to do: all is done, or a batch with errors.
func (s *slowStart) over() bool { return s.done == s.end }
