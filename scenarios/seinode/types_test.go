package seinode

import (
	"testing"

	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

func TestSeiNode(t *testing.T) {
	simtrack.Resource(t, "crds/seinode.yaml", GroupVersion, &SeiNode{}, &SeiNodeList{})
}
