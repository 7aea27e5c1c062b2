package photos_test

import (
	"testing"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, cli.Run) }

// Stories of voxsaw 2d.
func TestScripts(t *testing.T) { commandtest.Scripts(t) }
