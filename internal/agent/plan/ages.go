package plan

import (
	"slices"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// ages are the upper bounds of the ages that are counted, with their names.
var ages = []struct {
	below time.Duration
	name  string
}{{time.Minute, "1m"}, {10 * time.Minute, "10m"}, {time.Hour, "1h"}, {6 * time.Hour, "6h"}, {24 * time.Hour, "1d"}}

// longer is the name of all other ages.
const longer = "longer"

// Ages counts reservations by their age. Each reservation counts once; each age has a number.
func Ages(all []reservation.Reservation, now reservation.Moment) map[string]int {
	counts := map[string]int{longer: 0}
	for _, age := range ages {
		counts[age.name] = 0
	}
	for _, r := range all {
		d, name := now.Since(r.Deadline.From), longer
		for _, age := range slices.Backward(ages) {
			if d < age.below {
				name = age.name
			}
		}
		counts[name]++
	}
	return counts
}
