package agent_test

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// laterClock runs ahead by as much as a test says.
type laterClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (c *laterClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

// A round that hangs, as on a network namespace whose file system does not answer, fails the
// liveness probe. A round that fails, or an API server that does not answer, does not.
func TestAStuckRoundFailsTheLivenessProbe(t *testing.T) {
	n, later := newNode(t, "stuck"), &laterClock{}
	n.Clock = later
	hangs, goOn := make(chan struct{}, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	n.NetNS = func(path string) (reservation.NetNS, bool) {
		select {
		case hangs <- struct{}{}:
		default:
		}
		<-goOn
		return machine.StatNetNS(path)
	}
	n.attach(t, "default", "web-0", "u", filepath.Join(n.NetNSDir, "gone"), time.Hour)
	a := n.start(t)
	t.Cleanup(release) // before the agent is stopped
	<-hangs
	if err := a.Alive(); err != nil {
		t.Errorf("a round that has just begun: %v", err)
	}
	later.ahead.Store(int64(4 * time.Minute))
	if err := a.Alive(); err == nil || !strings.Contains(err.Error(), "rounds") {
		t.Errorf("a round that has hung for 4 minutes: %v, want the rounds named", err)
	}
	release()
	testenv.Eventually(t, a.Alive)
}
