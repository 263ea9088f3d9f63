package admit_test

import (
	"os"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env))
}
