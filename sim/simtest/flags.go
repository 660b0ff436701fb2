package simtest

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// setting is a value that a flag sets, or a variable of the environment. Variables are there because `go test ./...
// -sim.seed=7` fails in every package whose tests do not import this one: flags that a test binary does not define are
// an error.
type setting struct {
	name  string // of the flag, without "sim."
	usage string
	// check says whether a text is a value, and what is wanted if not. It keeps the value.
	check func(text string) error
	isSet bool // by the flag
}

// String implements flag.Value.
func (s *setting) String() string { return "" }

// Set implements flag.Value.
func (s *setting) Set(text string) error {
	s.isSet = true
	return s.check(text)
}

// IsBoolFlag lets the verbose flag do without a value.
func (s *setting) IsBoolFlag() bool { return s.name == "v" }

// variable returns the name of the variable that stands in for the flag.
func (s *setting) variable() string { return "SIM_" + strings.ToUpper(s.name) }

// settings are what flags and variables say. Zero values stand for what is not said, where has is false.
type settings struct {
	seed    int64
	runs    int
	budget  time.Duration
	replay  string
	report  string
	verbose bool

	all []*setting
	set map[string]bool // by a flag or by a variable
}

// newSettings makes the settings, with what each takes.
func newSettings() *settings {
	s := &settings{set: map[string]bool{}}
	s.add("seed", "`seed` of the first random run; the others count on from it (default: as the test says, or 1)",
		func(text string) (err error) {
			s.seed, err = strconv.ParseInt(text, 10, 64)
			return wanted(err, "a whole number")
		})
	s.add("runs", "`number` of random runs after the sweep (default: as the test says, or as the command)",
		func(text string) (err error) {
			if s.runs, err = strconv.Atoi(text); s.runs < 0 {
				err = errors.New("negative")
			}
			return wanted(err, "a number of runs, 0 for none")
		})
	s.add("for", "explore each scenario for so much real `time`, such as 30s, instead of -sim.runs",
		func(text string) (err error) {
			if s.budget, err = time.ParseDuration(text); s.budget <= 0 {
				err = cmp.Or(err, errors.New("not positive"))
			}
			return wanted(err, "a time such as 30s or 2h")
		})
	s.add("replay", "run this `schedule` only: a file, or one line of JSON as a failure prints it",
		func(text string) error {
			s.replay = text
			return nonempty(text, "the name of a Schedule file")
		})
	s.add("report", "write reports and the schedules of findings to this `folder`", func(text string) error {
		s.report = text
		return nonempty(text, "the name of a folder")
	})
	s.add("v", "log the report of scenarios that pass, too", func(text string) (err error) {
		s.verbose, err = strconv.ParseBool(text)
		return wanted(err, "true or false")
	})
	return s
}

func (s *settings) add(name, usage string, check func(string) error) {
	s.all = append(s.all, &setting{name: name, usage: usage, check: check})
}

func wanted(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("want %s", what)
}

func nonempty(text, what string) error {
	if text == "" {
		return fmt.Errorf("want %s", what)
	}
	return nil
}

// register defines the flags, all of them named -sim.something.
func (s *settings) register(flags *flag.FlagSet) {
	for _, one := range s.all {
		flags.Var(one, "sim."+one.name, fmt.Sprintf("stalemate: %s [$%s]", one.usage, one.variable()))
	}
}

// complete reads the variables of what no flag has set, and checks that the settings go together. A budget by a flag
// takes the place of one by a variable.
func (s *settings) complete(lookup func(string) (string, bool)) error {
	byFlag := map[string]bool{}
	for _, one := range s.all {
		byFlag[one.name] = one.isSet
		s.set[one.name] = one.isSet
	}
	budgeted := byFlag["runs"] || byFlag["for"]
	for _, one := range s.all {
		text, ok := lookup(one.variable())
		if !ok || text == "" || one.isSet || budgeted && (one.name == "runs" || one.name == "for") {
			continue
		}
		if err := one.check(text); err != nil {
			return fmt.Errorf("%s=%q: %w", one.variable(), text, err)
		}
		s.set[one.name] = true
	}
	if s.has("runs") && s.has("for") {
		return errors.New("-sim.runs and -sim.for (SIM_RUNS and SIM_FOR) are two ways to end: give one of them")
	}
	return nil
}

// has reports whether a flag or a variable says it.
func (s *settings) has(name string) bool { return s.set[name] }

// given are the flags of this process, registered before the tests' main parses them.
var given = newSettings()

func init() { given.register(flag.CommandLine) }

// theSettings returns what flags and variables say.
func theSettings() (*settings, error) {
	if !flag.Parsed() {
		return nil, errors.New("flags are not parsed yet: call this from a test, or after flag.Parse")
	}
	return completed()
}

var completed = sync.OnceValues(func() (*settings, error) { return given, given.complete(os.LookupEnv) })
