package scenarios

import (
	"maps"
	"slices"

	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Enums returns the values that a field may have, by "Type.Field", from the tables by which the loader checks them.
func Enums() map[string][]string {
	return map[string][]string{
		"Spec.KubernetesVersion":       texts(versions),
		"Controller.Reads":             {string(ReadsCached), string(ReadsLive)},
		"Racer.Type":                   texts(slices.Sorted(maps.Keys(racerTypes))),
		"ScriptStep.RetryWhile":        texts(retryReasons),
		"DeleteStep.PropagationPolicy": texts(propagationPolicies),
		"Selector.Verb":                requestVerbs,
		"Selector.Verbs":               requestVerbs,
		"EventSelector.Verb":           sorted(eventVerbs),
		"EventSelector.Verbs":          sorted(eventVerbs),
		"Selector.Subresource":         append([]string{""}, subresources...),
		"Between.Subresource":          append([]string{""}, subresources...),
		"Between.First":                firstVerbs,
		"Between.Then":                 thenVerbs,
		"FaultRule.Type":               texts(schedule.FaultTypes()),
		"FaultRule.Types":              texts(slices.DeleteFunc(schedule.FaultTypes(), needsBlock)),
		"ScheduledFault.Type":          texts(schedule.FaultTypes()),
		"ConflictFault.By":             texts(conflictMeans),
		"ErrorFault.Layer":             texts(layers),
		"LostResponseFault.As":         texts(lostMeans),
		"WebhookFailureFault.As":       texts(hookMeans),
		"DelayFault.At":                texts(points),
		"CrashFault.At":                texts(points),
		"UpgradeFault.At":              texts(points),
		"Variable.At":                  {string(AtStart)},
		"Property.Type":                texts(property.Types()),
		"Detector.Type":                texts(detect.Types()),
		"ScheduleSpec.WhenUnmatched":   texts(unmatched),
		"Expectation.Outcome":          texts(outcomes),
	}
}

// needsBlock reports whether a type of fault cannot do without its block.
func needsBlock(t schedule.FaultType) bool { return t == schedule.Upgrade }

// Blocks returns the blocks of the two unions, by the types that they are for.
func Blocks() (racers, faults map[string]string) {
	racers, faults = map[string]string{}, map[string]string{}
	for t, row := range racerTypes {
		if row.block != "" {
			racers[string(t)] = row.block
		}
	}
	var blocks FaultBlocks
	for _, t := range schedule.FaultTypes() {
		if blocks.field(t).IsValid() {
			faults[string(t)] = blockName(t)
		}
	}
	return racers, faults
}

func sorted(values []string) []string { return slices.Sorted(slices.Values(values)) }
