package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim/internal/recorded"
	"github.com/stalemate-dev/stalemate/sim/live/controlplane"
)

const testdata = "../apiserver/testdata/"

// TestGoldens plays the recordings against a real server, and by that proves the player that judges ours by them.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob(testdata + "api-1.36/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	groups := map[string][]recorded.Case{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := recorded.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		group := "plain"
		switch {
		case strings.HasSuffix(c.Name, "-etcd"):
			group = "uncached"
		case c.Expired():
			group = "forgetful"
		}
		groups[group] = append(groups[group], c)
	}
	forget := map[string]string{"etcd-compaction-interval": "5s"}
	t.Run("plain", func(t *testing.T) { playAll(t, nil, groups["plain"]) })
	t.Run("forgetful", func(t *testing.T) { playAll(t, forget, groups["forgetful"]) })
	// What etcd itself answers shows only without the caches in front of it.
	forget = map[string]string{"etcd-compaction-interval": "5s", "watch-cache": "false"}
	t.Run("uncached", func(t *testing.T) { playAll(t, forget, groups["uncached"]) })
}

// TestDifferencesOfOld plays what random sequences once showed to be different, and what was mended by it.
func TestDifferencesOfOld(t *testing.T) {
	file, err := os.Open(testdata + "recorded-1.36.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	cases, err := recorded.ReadPacked(file)
	if err != nil {
		t.Fatal(err)
	}
	cases = slices.DeleteFunc(cases, func(c recorded.Case) bool { return c.Group != "difference" })
	if len(cases) == 0 {
		t.Fatal("there are none")
	}
	playAll(t, map[string]string{"service-cluster-ip-range": addresses}, cases)
}

// playAll plays cases against a real server of their own.
func playAll(t *testing.T, flags map[string]string, cases []recorded.Case) {
	s := start(t, controlplane.Options{APIServerFlags: flags}, definitions...)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := s.player().Play(t.Context(), &c); err != nil {
				t.Error(err)
			}
		})
	}
}

// player returns a player of recordings against the server.
func (s *server) player() *recorded.Player {
	return &recorded.Player{Server: s, Host: s.host, Quiet: 300 * time.Millisecond, Forgetting: time.Minute, AnyOrder: true}
}
