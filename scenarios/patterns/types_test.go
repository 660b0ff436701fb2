package patterns

import (
	"testing"

	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

func TestApp(t *testing.T) { simtrack.Resource(t, "crds/app.yaml", GroupVersion, &App{}, &AppList{}) }
