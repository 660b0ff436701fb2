package builtin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cronField is one of the five parts of a schedule.
type cronField struct {
	low, high uint
	names     []string // of low and the numbers after it
}

// cronFields are minute, hour, day of month, month and day of week.
var cronFields = []cronField{
	{low: 0, high: 59},
	{low: 0, high: 23},
	{low: 1, high: 31},
	{low: 1, high: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{low: 0, high: 6, names: strings.Fields("sun mon tue wed thu fri sat")},
}

// parseSchedule says what is wrong with the schedule of a CronJob, in the words of the library that kube-apiserver asks:
// github.com/robfig/cron/v3 parser.go, v3.0.1.
func parseSchedule(text string) error {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		zone, rest, found := strings.Cut(text, " ")
		_, zone, _ = strings.Cut(zone, "=")
		if !found {
			return fmt.Errorf("invalid schedule format: runtime error: slice bounds out of range [:-1]")
		}
		if _, err := time.LoadLocation(zone); err != nil {
			return fmt.Errorf("provided bad location %s: %w", zone, err)
		}
		text = strings.TrimSpace(rest)
	}
	if strings.HasPrefix(text, "@") {
		return parseDescriptor(text)
	}
	parts := strings.Fields(text)
	if len(parts) != len(cronFields) {
		return fmt.Errorf("expected exactly %d fields, found %d: %s", len(cronFields), len(parts), parts)
	}
	for i, part := range parts {
		for _, expression := range strings.FieldsFunc(part, func(r rune) bool { return r == ',' }) {
			if err := cronFields[i].check(expression); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseDescriptor(text string) error {
	if slices.Contains([]string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}, text) {
		return nil
	}
	interval, ok := strings.CutPrefix(text, "@every ")
	if !ok {
		return fmt.Errorf("unrecognized descriptor: %s", text)
	}
	if _, err := time.ParseDuration(interval); err != nil {
		return fmt.Errorf("failed to parse duration %s: %w", text, err)
	}
	return nil
}

// check reads "5", "1-5", "*/2" or "1-10/3".
func (f cronField) check(text string) error {
	parts := strings.Split(text, "/")
	first, last, single, err := f.bounds(parts[0], text)
	if err != nil {
		return err
	}
	step := uint(1)
	switch len(parts) {
	case 1:
	case 2:
		if step, err = parseCronNumber(parts[1]); err != nil {
			return err
		}
		if single {
			last = f.high
		}
	default:
		return fmt.Errorf("too many slashes: %s", text)
	}
	switch {
	case first < f.low:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", first, f.low, text)
	case last > f.high:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", last, f.high, text)
	case first > last:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", first, last, text)
	case step == 0:
		return fmt.Errorf("step of range should be a positive number: %s", text)
	default:
		return nil
	}
}

// bounds reads what stands before the step; text is the whole, for errors.
func (f cronField) bounds(interval, text string) (first, last uint, single bool, err error) {
	limits := strings.Split(interval, "-")
	single = len(limits) == 1
	if limits[0] == "*" || limits[0] == "?" {
		return f.low, f.high, single, nil
	}
	if first, err = f.number(limits[0]); err != nil {
		return 0, 0, single, err
	}
	switch len(limits) {
	case 1:
		return first, first, true, nil
	case 2:
		last, err = f.number(limits[1])
		return first, last, false, err
	default:
		return 0, 0, false, fmt.Errorf("too many hyphens: %s", text)
	}
}

func (f cronField) number(text string) (uint, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.low + uint(i), nil
	}
	return parseCronNumber(text)
}

func parseCronNumber(text string) (uint, error) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	case n < 0:
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", n, text)
	default:
		return uint(n), nil
	}
}
