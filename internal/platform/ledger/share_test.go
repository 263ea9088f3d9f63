package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// TestSharesLeaveRoomForEntries has as many budgets with as many peers of long names as a tenant likes.
func TestSharesLeaveRoomForEntries(t *testing.T) {
	var b ledger.Book
	share := func(budget string) ledger.Share {
		s := ledger.Share{Budget: budget}
		for range 17 {
			s.Peers = append(s.Peers, ledger.PeerUnits{Site: strings.Repeat("x", 500)})
		}
		return s
	}
	fit := 0
	for i := range 600 {
		name := fmt.Sprint("dpdb/", i)
		next, fits := ledger.PutShares(b, name, []ledger.Share{share(name)})
		if b = next; fits {
			fit++
		}
	}
	if fit < 10 || fit > 30 || len(b.Shares) != fit {
		t.Errorf("%d shares of 12 KB fit, and the book has %d", fit, len(b.Shares))
	}
	if _, fits := ledger.PutShares(b, "dpdb/0", []ledger.Share{share("dpdb/0")}); !fits {
		t.Error("a share that is there has no room")
	}
	if b, fits := ledger.PutShares(b, "dpdb/0", nil); !fits || len(b.Shares) != fit-1 {
		t.Error("a share is not taken out")
	}
}
