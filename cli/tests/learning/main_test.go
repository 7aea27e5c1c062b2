package learning_test

import (
	"testing"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, cli.Run) }

// Stories of the commands that train.
func TestScripts(t *testing.T) { commandtest.Scripts(t) }
