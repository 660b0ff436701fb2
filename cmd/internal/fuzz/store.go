package fuzz

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/explore"
)

// The corpus directory:
//
//	CORPUS/
//	  stalemate-corpus.json        says whose directory this is, and in which version
//	  schedules/TARGET/HASH.yaml   schedules that reached something new: to be committed, if one likes
//	  .state/lock                  held by the supervisor at work
//	  .state/CAMPAIGN/             how far an exploration is: its own business; may be deleted
//	    campaign.json              what was explored, by which program
//	    worker-N                   black boxes
//	    targets/TARGET/            what was found of a target
//	      target.json              deaths of workers, units that were given up
//	      whole.json               the part that many units came to
//	      unit-KEY.json            the part that a unit came to

// corpusVersion is the version of the layout.
const corpusVersion = "stalemate.dev/v1alpha1"

// stamp says whose directory a corpus is.
type stamp struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

const (
	stampFile = "stalemate-corpus.json"
	stampKind = "Corpus"
)

// UsageError is a mistake in what was asked for, or in files that it names.
type UsageError struct{ error }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// openCorpus makes a directory a corpus, or sees that it is one.
func openCorpus(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usagef("--corpus: %w", err)
	}
	file := filepath.Join(dir, stampFile)
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return usagef("--corpus: %w", err)
		}
		for _, entry := range entries {
			if entry.Name()[0] != '.' {
				return usagef("--corpus %s: holds other things (%s), and no %s: name a directory that is empty or not there yet",
					dir, entry.Name(), stampFile)
			}
		}
		return writeJSON(file, stamp{corpusVersion, stampKind})
	}
	if err != nil {
		return usagef("--corpus: %w", err)
	}
	var found stamp
	if err := json.Unmarshal(content, &found); err != nil || found.Kind != stampKind {
		return usagef("%s: not the stamp of a corpus: is the directory another program's?", file)
	}
	if found.APIVersion != corpusVersion {
		return usagef("%s: the corpus is of version %s, this program reads %s: name another directory", file, found.APIVersion, corpusVersion)
	}
	return nil
}

// campaign is one exploration that may be interrupted and resumed: it ends when all runs that were asked for have been made. An
// exploration for a time goes on where the last one with the same corpus ended.
type campaign struct {
	dir  string
	lock *os.File
	about
}

// about says what a campaign explores.
type about struct {
	APIVersion string `json:"apiVersion"`
	// Program is the digest of the program that explores: another one comes to other results.
	Program string `json:"program"`
	// Spent is the time that an exploration for a time has had, which then was interrupted.
	Spent time.Duration `json:"spent,omitempty"`
}

// openCampaign begins a campaign, or takes up the one that is there. It reports whether one was there that another program had begun:
// that is forgotten.
func openCampaign(corpus, name, program string) (c *campaign, forgotten bool, err error) {
	state := filepath.Join(corpus, ".state")
	c = &campaign{dir: filepath.Join(state, name), about: about{APIVersion: corpusVersion, Program: program}}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, false, usagef("--corpus: %w", err)
	}
	if err := os.WriteFile(filepath.Join(state, ".gitignore"), []byte("*\n"), 0o644); err != nil {
		return nil, false, usagef("--corpus: %w", err)
	}
	if c.lock, err = lockFile(filepath.Join(state, "lock")); err != nil {
		return nil, false, usagef("--corpus %s: %w", corpus, err)
	}
	var before about
	switch err := readJSON(c.file(), &before); {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && before.Program == program && before.APIVersion == corpusVersion:
		c.about = before
		return c, false, nil
	default: // nothing of it can be used
		if err := os.RemoveAll(filepath.Join(c.dir, "targets")); err != nil {
			return nil, false, usagef("--corpus: %w", err)
		}
		forgotten = true
	}
	return c, forgotten, writeJSON(c.file(), c.about)
}

func (c *campaign) file() string { return filepath.Join(c.dir, "campaign.json") }

// spend takes note of the time that the exploration has had.
func (c *campaign) spend(d time.Duration) error {
	c.Spent = d
	return writeJSON(c.file(), c.about)
}

// close lets others take the campaign up.
func (c *campaign) close() error { return c.lock.Close() }

// box returns the black box of a worker.
func (c *campaign) box(n int) string { return filepath.Join(c.dir, fmt.Sprintf("worker-%d", n)) }

// programDigest returns the digest of the running program.
func programDigest() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// saved is what units came to, as it is on disk.
type saved struct {
	// Keys name the units but for those of seeds below Seeds, which are all in.
	Keys  []string      `json:"keys,omitempty"`
	Seeds int           `json:"seeds,omitempty"`
	CPU   time.Duration `json:"cpu"`
	Part  *explore.Part `json:"part"`
	// Bodies are what the part does not carry.
	Bodies json.RawMessage `json:"bodies"`
}

// newSaved encodes a part.
func newSaved(part *explore.Part) (*saved, error) {
	var bodies bytes.Buffer
	if err := reports.EncodeResult(&bodies, part.Bodies()); err != nil {
		return nil, err
	}
	return &saved{Part: part, Bodies: bodies.Bytes()}, nil
}

// attach puts the part's histories back.
func (s *saved) attach() (*explore.Part, error) {
	if s.Part == nil {
		return nil, errors.New("no part")
	}
	bodies, err := reports.DecodeResult(bytes.NewReader(s.Bodies))
	if err != nil {
		return nil, err
	}
	return s.Part, s.Part.Attach(bodies)
}

// temporarySuffix ends the names of files and folders that are not finished.
const temporarySuffix = ".new"

// writeJSON writes a file so that it is there as a whole or not at all. It does not wait for the disk.
func writeJSON(name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	temporary := name + temporarySuffix
	if err := os.WriteFile(temporary, append(content, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}

// sizeOf returns the size of a file in bytes, zero if that is not known.
func sizeOf(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// readJSON reads what writeJSON wrote.
func readJSON(name string, value any) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
