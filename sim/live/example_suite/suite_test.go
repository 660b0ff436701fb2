// Package example_suite shows how an operator's own Ginkgo suite asks a real API server about a finding. Take it as a model: the
// registry is the one of your tests, and the schedule one of your findings.
package example_suite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/seinode"
	"github.com/stalemate-dev/stalemate/sim/live"
	"github.com/stalemate-dev/stalemate/sim/live/assets"
)

func TestLive(t *testing.T) {
	if testing.Short() {
		t.Skip("a real control plane takes half a minute a run")
	}
	if _, err := assets.Dir(); errors.Is(err, assets.ErrMissing) {
		t.Skip(err)
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Findings on a real API server")
}

// finding loads a schedule, with another reconciler than its own if one is named.
func finding(file, reconciler string) live.Finding {
	GinkgoHelper()
	registry := &scenarios.Registry{}
	seinode.Register(registry)
	loaded, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: registry})
	Expect(err).NotTo(HaveOccurred())
	var overrides map[string]string
	if reconciler != "" {
		overrides = map[string]string{"operator": reconciler}
	}
	config, err := loaded.Config(registry, overrides)
	Expect(err).NotTo(HaveOccurred())
	return live.Finding{Name: loaded.Name, Config: config, Schedule: loaded.Spec}
}

var _ = Describe("a set that was restored from a backup", func() {
	const schedule = "../../../scenarios/seinode/testdata/schedules/seinode-restored-v345-default-order.yaml"

	It("is deleted twice by version 345", func(ctx context.Context) {
		Expect(live.Confirm(ctx, finding(schedule, ""), live.Options{})).To(live.BeConfirmed())
	}, NodeTimeout(5*time.Minute))

	It("is deleted once by version 348", func(ctx context.Context) {
		Expect(live.Confirm(ctx, finding(schedule, "seinode/v348"), live.Options{})).NotTo(live.BeConfirmed())
	}, NodeTimeout(5*time.Minute))
})
