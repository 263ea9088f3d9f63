package lifecycle_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestFreedAddressesAreDelayed ends an attachment of 10.0.0.1 in each way, beside a reservation of 10.0.0.2.
func TestFreedAddressesAreDelayed(t *testing.T) {
	const delay = 30 * time.Second
	for name, tc := range map[string]struct {
		delay    time.Duration
		retain   time.Duration
		waited   time.Duration // of the reservation
		share    int64
		rollback bool
		want     string
		lately   int
	}{
		"freed":                       {delay: delay, share: 9, want: "[10.0.0.1]", lately: 1},
		"without a delay":             {share: 9, want: "[]", lately: 1},
		"reserved":                    {delay: delay, share: 9, retain: time.Minute, want: "[]"},
		"reserved, no room":           {delay: delay, share: 0, retain: time.Minute, want: "[10.0.0.1]", lately: 1},
		"an ADD is rolled back":       {delay: delay, share: 9, rollback: true, want: "[]"},
		"another one gives way":       {delay: delay, share: 1, retain: time.Minute, waited: time.Second, want: "[10.0.0.2]", lately: 1},
		"another one that has waited": {delay: delay, share: 1, retain: time.Minute, waited: delay, want: "[]", lately: 1},
		"another one has lapsed":      {delay: delay, share: 1, retain: time.Minute, waited: time.Hour, want: "[]"},
		"another one has lapsed before a long delay is over": {delay: 2 * time.Hour, share: 1, retain: time.Minute, waited: time.Hour, want: "[10.0.0.2]", lately: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := persistence.New(persistence.Options{Dir: t.TempDir()})
			update(t, s, func(tx *persistence.Tx) error {
				a, other := attachment(1), reserved(attachment(2))
				a.Retain = tc.retain
				err := errors.Join(tx.SetLimits("net", reservation.Limits{Share: reservation.Share{Pods: tc.share}, ReleaseDelay: tc.delay}),
					tx.PutAttachment(a), tx.PutReservation(*other))
				later := now
				later.Up += tc.waited
				_, endErr := lifecycle.End(tx, a, later, tc.rollback)
				got, readErr := tx.Released("net", reservation.Release{}, later)
				if fmt.Sprint(got.Delayed) != tc.want || len(got.Delayed)+len(got.Before) != tc.lately {
					t.Errorf("released %+v, want %s, lately %d", got, tc.want, tc.lately)
				}
				return errors.Join(err, endErr, readErr)
			})
		})
	}
}
