package paper_test

import (
	"testing"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, cli.Run) }
