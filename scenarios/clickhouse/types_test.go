package clickhouse

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

func TestClickHouseInstallation(t *testing.T) {
	simtrack.Resource(t, "crds/clickhouseinstallation.yaml", GroupVersion, &ClickHouseInstallation{}, &ClickHouseInstallationList{})
}

func TestStringBool(t *testing.T) {
	for text, want := range map[StringBool]bool{
		"": false, "no": false, "off": false, "0": false, "yes": true, "YES": true, "true": true, "1": true, "Enabled": true,
	} {
		if got := text.IsTrue(); got != want {
			t.Errorf("%q is true: %t, want %t", text, got, want)
		}
	}
}

// TestDesired checks what hosts are made of.
func TestDesired(t *testing.T) {
	chi := testCHI()
	chi.Spec.Configuration.Clusters[0].Layout = Layout{ShardsCount: 2, ReplicasCount: 2}
	chi.Spec.Templates.VolumeClaimTemplates = append(chi.Spec.Templates.VolumeClaimTemplates, VolumeClaimTemplate{Name: "unused"})
	var names, versions []string
	for _, h := range hosts(chi) {
		set := h.statefulSet()
		names = append(names, set.Name)
		versions = append(versions, set.Labels[labelObjectVersion])
		if claims := set.Spec.VolumeClaimTemplates; len(claims) != 1 || claims[0].Name != "data" {
			t.Errorf("%s has the claim templates %v, want only the mounted one", set.Name, claims)
		}
		if set.ResourceVersion != "" {
			t.Errorf("%s has a resourceVersion", set.Name)
		}
		if again := h.statefulSet(); !cmp.Equal(set, again) {
			t.Errorf("%s is rendered differently the second time", set.Name)
		}
	}
	if want := []string{"chi-a-0-0", "chi-a-0-1", "chi-a-1-0", "chi-a-1-1"}; !slices.Equal(names, want) {
		t.Errorf("sets %v, want %v", names, want)
	}
	slices.Sort(versions)
	if distinct := slices.Compact(versions); len(distinct) != 4 {
		t.Errorf("4 hosts have %d object versions", len(distinct))
	}
	chi.Spec.Stop = "yes"
	if set := hosts(chi)[0].statefulSet(); *set.Spec.Replicas != 0 || slices.Contains(versions, set.Labels[labelObjectVersion]) {
		t.Errorf("a stopped host has %d replicas and version %s", *set.Spec.Replicas, set.Labels[labelObjectVersion])
	}
}
