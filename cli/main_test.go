package cli

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m, Run) }
