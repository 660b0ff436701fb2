package apiserver

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	_ "github.com/stalemate-dev/stalemate/sim/apiserver/crd/cel" // the recorded kind has a validation rule
)

func fixedClock() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

// generic returns the JSON form of a value.
func generic(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		panic(err)
	}
	return decoded
}

// GoldenKinds returns the kinds of the recordings that were given. Tests share them and must not add to them.
func GoldenKinds(version Version) *Kinds {
	if version == V136 {
		return kinds136()
	}
	return kinds137()
}

// RecordedKinds returns those of the packed recordings, which have custom resources of their own.
func RecordedKinds(version Version) *Kinds {
	if version == V136 {
		return recorded136()
	}
	return recorded137()
}

var (
	kinds136    = sync.OnceValue(func() *Kinds { return loadKinds(V136, goldenCRDs()...) })
	kinds137    = sync.OnceValue(func() *Kinds { return loadKinds(V137, goldenCRDs()...) })
	recorded136 = sync.OnceValue(func() *Kinds { return loadKinds(V136, "testdata/widgets.yaml", "testdata/recorded-crds.yaml") })
	recorded137 = sync.OnceValue(func() *Kinds { return loadKinds(V137, "testdata/widgets.yaml", "testdata/recorded-crds.yaml") })
)

func goldenCRDs() []string {
	files := []string{"testdata/widgets.yaml"}
	if folder := os.Getenv("SIM_GOLDENS"); folder != "" { // other recordings may have other custom resources too
		files = append(files, filepath.Join(folder, "crds.yaml"))
	}
	return files
}

func loadKinds(version Version, files ...string) *Kinds {
	kinds := NewKinds(version)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && file != files[0] {
			continue
		}
		if err != nil {
			panic(err)
		}
		definitions, err := crd.Load(text)
		if err != nil {
			panic(err)
		}
		for _, definition := range definitions {
			if _, err := kinds.AddCRD(definition); err != nil {
				panic(err)
			}
		}
	}
	return kinds
}
