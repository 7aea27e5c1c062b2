//go:build man

package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/voxsaw/voxsaw"
)

// The verb man writes manual pages. It is built for that alone, so that no other program has what
// they are made with: go run -tags man ./cmd/voxsaw man DIR.
func init() {
	ofReleases = append(ofReleases, &cobra.Command{
		Use: "man DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			eachCommand(root, func(c *cobra.Command) { c.DisableAutoGenTag = true })
			// Archives for all platforms hold the same pages: these do not tell what this program
			// was built for.
			return doc.GenManTree(root, &doc.GenManHeader{Title: "VOXSAW", Section: "1",
				Source: "voxsaw " + voxsaw.Version(), Manual: "Voxsaw"}, args[0])
		},
	})
}
