package report

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/table"
)

// A page shows the first rows of a long table and says how many more there are, and its columns of
// numbers are those of all rows.
func TestLongTables(t *testing.T) {
	for rows, more := range map[int]string{mostRows: "", mostRows + 3: "3 rows more: the CSV files"} {
		long := table.Table{Columns: []table.Column{{Key: "case", Title: "Case"}, {Key: "dsc", Title: "DSC"}}}
		for n := range rows {
			row := []any{"case", any(nil)}
			if n == rows-1 {
				row[1] = 0.5
			}
			long.Rows = append(long.Rows, row)
		}
		var b strings.Builder
		if err := (Table{Table: long}).html(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if n := strings.Count(page, "<td>case</td>"); n != mostRows || !strings.Contains(page, more) ||
			strings.Contains(page, "more:") != (more != "") || !strings.Contains(page, `<th class="n">DSC</th>`) {
			t.Errorf("%d rows: %d on the page, %s", rows, n, page[len(page)-200:])
		}
	}
}
