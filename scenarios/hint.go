package scenarios

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// didYouMean returns ", did you mean "x"?" with what comes closest to a word, or "" if nothing comes close.
func didYouMean(word string, known []string) string {
	if best := near(word, known); len(best) > 0 {
		return fmt.Sprintf(", did you mean %q?", best[0])
	}
	return ""
}

// didYouMeanOr is like didYouMean, but where nothing comes close it says what there is.
func didYouMeanOr(word string, known []string) string {
	if hint := didYouMean(word, known); hint != "" {
		return hint
	}
	return "; there is " + quoted(known)
}

// near returns the known words that a word may be a slip of, the nearest first: those that differ from it only in case, or
// by an edit in three characters at most.
func near(word string, known []string) []string {
	type candidate struct {
		word     string
		distance int
	}
	var candidates []candidate
	for _, k := range known {
		d := distance(strings.ToLower(word), strings.ToLower(k))
		if d <= max(len(word), len(k))/3 {
			candidates = append(candidates, candidate{k, d})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.word, b.word))
	})
	words := make([]string, len(candidates))
	for i, c := range candidates {
		words[i] = c.word
	}
	return words
}

// distance returns how many insertions, deletions, replacements and swaps of neighbours turn one word into the other
// (optimal string alignment). Words longer than any name are as far apart as they are long.
func distance(a, b string) int {
	const longest = 64
	x, y := []rune(a), []rune(b)
	if len(x) > longest || len(y) > longest {
		return max(len(x), len(y))
	}
	before, last := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row := make([]int, len(y)+1)
		row[0] = i
		for j := 1; j <= len(y); j++ {
			replace := last[j-1]
			if x[i-1] != y[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}
