package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stalemate-dev/stalemate/scenarios"
)

func (a *app) explainCommand() *cobra.Command {
	recursive := false
	c := &cobra.Command{
		Use:   "explain FIELD",
		Short: "Say what a field of a scenario or schedule is",
		Long: "Says what a field is: its type, its values, its default, and the fields below it. The path begins with scenario or\n" +
			"schedule; one that is copied from an error, such as spec.racers[0].type, is of a scenario.",
		Example: `  stalemate explain scenario.spec.faults.rules
  stalemate explain schedule.spec.order
  stalemate explain scenario --recursive`,
		Args: usageArgs(oneField),
		RunE: func(_ *cobra.Command, args []string) error {
			field, err := scenarios.Explain(args[0])
			if err != nil {
				return usageError{err}
			}
			_, err = fmt.Fprint(a.stdout, explained(&field, recursive))
			return err
		},
	}
	c.Flags().BoolVar(&recursive, "recursive", false, "name all fields below, at any depth, without saying what they are")
	return c
}

// oneField takes one path.
func oneField(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one field, as in scenario.spec or schedule.spec.order")
	}
	return nil
}

// explainWidth is the width of what is explained, in characters.
const explainWidth = 100

// explained writes a field as `kubectl explain` does.
func explained(f *scenarios.Field, recursive bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "KIND:     %s\nVERSION:  %s\n\n", f.Kind, scenarios.APIVersion)
	if f.Path != "" {
		fmt.Fprintf(&b, "FIELD: %s\n\n", signature(f))
	}
	b.WriteString("DESCRIPTION:\n")
	for _, doc := range []string{f.Doc, f.OfDoc} {
		paragraph(&b, "  ", doc)
	}
	if f.Default != "" {
		paragraph(&b, "  ", "Default: "+f.Default)
	}
	if len(f.Values) > 0 {
		b.WriteString("\nVALUES:\n")
		for _, value := range f.Values {
			fmt.Fprintf(&b, "  %s\n", cmp.Or(value.Value, `""`))
			paragraph(&b, "      ", value.Doc)
		}
	}
	if len(f.Fields) == 0 {
		return b.String()
	}
	b.WriteString("\nFIELDS:\n")
	if recursive {
		tree(&b, "  ", f.Fields)
		return b.String()
	}
	for i := range f.Fields {
		below := &f.Fields[i]
		fmt.Fprintf(&b, "  %s\n", signature(below))
		paragraph(&b, "      ", below.Doc)
		if i < len(f.Fields)-1 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// signature is the name of a field, its type, and whether it must be there.
func signature(f *scenarios.Field) string {
	text := fmt.Sprintf("%s <%s>", f.Name, f.Type)
	if f.Required {
		text += " -required-"
	}
	return text
}

// tree writes the names of fields, and of those below them.
func tree(b *strings.Builder, indent string, fields []scenarios.Field) {
	for i := range fields {
		fmt.Fprintf(b, "%s%s\n", indent, signature(&fields[i]))
		tree(b, indent+"  ", fields[i].Fields)
	}
}

// paragraph writes a text in lines; nothing if it is empty.
func paragraph(b *strings.Builder, indent, text string) {
	if text == "" {
		return
	}
	column := 0 // where the line ends; zero before the first
	for word := range strings.FieldsSeq(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case column+1+length > explainWidth:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	b.WriteByte('\n')
}
