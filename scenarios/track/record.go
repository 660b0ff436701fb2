package track

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Where a folder of reconcilers keeps what its rows came to: their records, and the schedules of their findings.
const (
	File      = "testdata/track.json"
	Schedules = "testdata/schedules"
)

// Record is what a row came to, as it is committed. It says nothing of real time: the same code comes to the same.
type Record struct {
	// Row is the row's name.
	Row string `json:"row"`
	// First is how many executions the first finding took, Executions how many there were; see [Outcome].
	First      int `json:"first,omitempty"`
	Executions int `json:"executions"`
	// Findings are those of all entries of the scenario's matrix, in their order.
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is one of the findings of a row.
type Finding struct {
	// Breaks are the properties and detectors that it breaks.
	Breaks []string `json:"breaks"`
	// Decides are the sentences of its report that say what decides.
	Decides []string `json:"decides"`
	// Schedule is the name of its file in the folder's testdata/schedules; empty if it is not kept.
	Schedule string `json:"schedule,omitempty"`
}

// ReadRecords reads the records of a folder of reconcilers. There are none if it has no such file.
func ReadRecords(folder string) ([]Record, error) {
	file := filepath.Join(folder, filepath.FromSlash(File))
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var records []Record
	if err := decoder.Decode(&records); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return records, nil
}

// WriteRecords writes the records of a folder of reconcilers.
func WriteRecords(folder string, records []Record) error {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(records); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, filepath.FromSlash(File)), content.Bytes(), 0o644)
}
