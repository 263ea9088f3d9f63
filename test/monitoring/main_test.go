package monitoring_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/cniexec"
	"github.com/limpet-io/limpet/test/debian"
	"github.com/limpet-io/limpet/test/monitoring"
	"github.com/limpet-io/limpet/test/programs"
)

const root = "../.."

var (
	env        *testenv.Env
	prometheus monitoring.Programs
	emulator   string // of another architecture, if the agent is of one
)

func TestMain(m *testing.M) {
	code, err := start(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		code = 1
	}
	os.Exit(code)
}

// start fetches Prometheus while /var/lib is the machine's, where apt keeps its lists.
func start(m *testing.M) (int, error) {
	cache, err := debian.Cache(os.Getenv(debian.CacheVar))
	if err != nil {
		return 0, err
	}
	if prometheus, err = monitoring.Fetch(context.Background(), cache); err != nil {
		return 0, err
	}
	if architecture := os.Getenv(cniexec.EmulatedVar); architecture != "" {
		if emulator, err = cniexec.Emulator(context.Background(), cache, architecture); err != nil {
			return 0, err
		}
	}
	return cniexec.Alone(func() (int, error) {
		return testenv.Main(m, os.Getenv(programs.Var), &env, apiextensionsv1.AddToScheme), nil
	})
}
