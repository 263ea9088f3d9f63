package build

import (
	"testing"
	"time"
)

func TestEstimateOfWhatIsLeft(t *testing.T) {
	big, small := component{usual: 4 * time.Minute}, component{usual: time.Minute}
	for name, tc := range map[string]struct {
		pace        pace
		todo        []component
		elapsed     time.Duration
		wantCurrent time.Duration
		wantAll     time.Duration
	}{
		"at the start":           {todo: []component{big, small}, wantCurrent: 4 * time.Minute, wantAll: 5 * time.Minute},
		"half-way":               {todo: []component{big, small}, elapsed: 2 * time.Minute, wantCurrent: 2 * time.Minute, wantAll: 3 * time.Minute},
		"longer than usual":      {todo: []component{big, small}, elapsed: 9 * time.Minute, wantCurrent: 0, wantAll: time.Minute},
		"a machine half as fast": {pace: pace{expected: time.Minute, spent: 2 * time.Minute}, todo: []component{big, small}, wantCurrent: 8 * time.Minute, wantAll: 10 * time.Minute},
		"nothing to do":          {},
	} {
		t.Run(name, func(t *testing.T) {
			current, all := tc.pace.left(tc.todo, tc.elapsed)
			if current != tc.wantCurrent || all != tc.wantAll {
				t.Errorf("left: %v for this one, %v in all; want %v and %v", current, all, tc.wantCurrent, tc.wantAll)
			}
		})
	}
}

func TestAboutRoundsToWhatAPersonReads(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "about 0 s", 43 * time.Second: "about 45 s", 119 * time.Second: "about 120 s", 150 * time.Second: "about 3 min",
	} {
		if got := about(d); got != want {
			t.Errorf("about(%v) = %q, want %q", d, got, want)
		}
	}
}
