package simtest

import (
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestRoles checks that the roles of a test are those of the runs, and that a report names the rule that is missing.
func TestRoles(t *testing.T) {
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	const folder = "../../scenarios/clickhouse/testdata/rbac/"
	try := func(role string) *Failure {
		t.Helper()
		f, err := NewWorld(t, Scenario(folder+"complete.yaml"), Registry(registry), Roles("operator", folder+role)).
			Try(t, Course{Schedule: schedule.Schedule{}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := try("role.yaml"); f != nil {
		t.Errorf("broken with all rights: %s", f.Report)
	}
	f := try("role-without-delete.yaml")
	if f == nil {
		t.Fatal("not broken though a right is missing")
	}
	const missing = `its roles lack {apiGroups: ["apps"], resources: ["statefulsets"], verbs: ["delete"]} in namespace "default"`
	if !strings.Contains(strings.Join(strings.Fields(f.Report), " "), missing) {
		t.Errorf("the report does not name the rule that is missing:\n%s", f.Report)
	}
}

// TestRolesRefused checks what is wrong with roles.
func TestRolesRefused(t *testing.T) {
	const file = "../../scenarios/clickhouse/testdata/rbac/role.yaml"
	config := *theWorld(t).scenario.config
	for want, option := range map[string]Option{
		`simtest.Roles("nobody"): scenario`:              Roles("nobody", file),
		`simtest.Roles: no-such-role.yaml: no such file`: Roles("operator", "no-such-role.yaml"),
	} {
		if _, err := load(Config(&config), []Option{option}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := load(Config(&config), []Option{Roles("operator", file)}); err != nil {
		t.Error(err)
	}
	if config.Processes[0].Access != nil {
		t.Error("the test's value was changed")
	}
}
