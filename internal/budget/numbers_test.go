package budget_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/budget"
)

// The examples are those of OpenKruise's and of Kubernetes' documents: both round up.
func TestDesiredOf(t *testing.T) {
	cases := map[string]struct {
		max, min string
		size     int32
		unknown  bool
		want     int32
		known    bool
	}{
		"25% of 10 may go":                     {max: "25%", size: 10, want: 7, known: true},
		"0% of 10 may go":                      {max: "0%", size: 10, want: 10, known: true},
		"0 of 10 may go":                       {max: "0", size: 10, want: 10, known: true},
		"100% of 10 may go":                    {max: "100%", size: 10, want: 0, known: true},
		"100 of 10 may go":                     {max: "100", size: 10, want: 0, known: true},
		"60% of 5 may go":                      {max: "60%", size: 5, want: 2, known: true},
		"1% of 1 may go":                       {max: "1%", size: 1, want: 0, known: true},
		"30% of 7 may go":                      {max: "30%", size: 7, want: 4, known: true},
		"50% of 9 must stay":                   {min: "50%", size: 9, want: 5, known: true},
		"80% of 10 must stay":                  {min: "80%", size: 10, want: 8, known: true},
		"100% of 10 must stay":                 {min: "100%", size: 10, want: 10, known: true},
		"0% must stay":                         {min: "0%", size: 10, want: 0, known: true},
		"100 of 10 must stay":                  {min: "100", size: 10, want: 100, known: true},
		"2 of 0 must stay":                     {min: "2", size: 0, want: 2, known: true},
		"scaled to zero, and 1 may go":         {max: "1", size: 0, want: 0, known: true},
		"scaled to zero, and 50% must stay":    {min: "50%", size: 0, want: 0, known: true},
		"unknown size, and 1 may go":           {max: "1", unknown: true},
		"unknown size, and 100% may go":        {max: "100%", unknown: true, want: 0, known: true},
		"unknown size, and 50% must stay":      {min: "50%", unknown: true},
		"unknown size, and a number must stay": {min: "3", unknown: true, want: 3, known: true},
		"a negative number may go":             {max: "-3", size: 10, want: 10, known: true},
		"a negative number must stay":          {min: "-3", size: 10, want: 0, known: true},
		"a word":                               {max: "half", size: 10},
		"the largest size":                     {max: "1%", size: 1<<31 - 1, want: 2126008810, known: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := budget.Budget{}
			if tc.max != "" {
				b.MaxUnavailable = limit(tc.max)
			}
			if tc.min != "" {
				b.MinAvailable = limit(tc.min)
			}
			got, known := budget.DesiredOf(b.MaxUnavailable, b.MinAvailable, tc.size, !tc.unknown)
			if known != tc.known || known && got != tc.want {
				t.Errorf("desired %d, known %v; want %d, %v", got, known, tc.want, tc.known)
			}
		})
	}
	if _, known := budget.DesiredOf(nil, nil, 3, true); known {
		t.Error("a budget without a number has a desired number")
	}
}

func TestCount(t *testing.T) {
	displaced := serving(1)
	displaced.Displaced = true
	ending := serving(1)
	ending.Finished = true
	expired := book(serving(0))
	e := expired.Entries["u-0"]
	e.Expires = now
	expired.Entries["u-0"] = e
	cases := map[string]struct {
		budget budget.Budget
		book   []budget.Pod
		want   budget.Numbers
	}{
		"nothing is in use": {most("60%", pods(5)), nil, budget.Numbers{Total: 5, Desired: 2, Current: 5, Allowed: 3}},
		"an entry":          {most("60%", pods(5)), pods(2), budget.Numbers{Total: 5, Desired: 2, Current: 3, Allowed: 1}},
		"an entry of a pod of another budget": {
			most("1", pods(3)), []budget.Pod{serving(7)}, budget.Numbers{Total: 3, Desired: 2, Current: 3, Allowed: 1},
		},
		"a pod that is not Ready": {
			most("1", append(pods(2), unready(2))), nil, budget.Numbers{Total: 3, Desired: 2, Current: 2},
		},
		"a pod that is not stable yet": {
			most("1", append(pods(2), young(2))), nil, budget.Numbers{Total: 3, Desired: 2, Current: 2},
		},
		"a pod that ends": {most("1", []budget.Pod{serving(0), ending}), nil, budget.Numbers{Total: 2, Desired: 1, Current: 1}},
		"a missing pod counts as unavailable": {
			with(most("2", pods(3)), func(b *budget.Budget) { b.Expected = 5 }), nil, budget.Numbers{Total: 5, Desired: 3, Current: 3},
		},
		"surplus pods of a rollout are no units": {
			with(most("2", pods(12)), func(b *budget.Budget) { b.Expected = 10 }), nil, budget.Numbers{Total: 10, Desired: 8, Current: 12, Allowed: 2},
		},
		"surplus pods, and no pod may go": {
			with(most("0", pods(12)), func(b *budget.Budget) { b.Expected = 10 }), nil, budget.Numbers{Total: 10, Desired: 10, Current: 12},
		},
		"below the number": {
			with(least("4", pods(2)), func(b *budget.Budget) { b.Expected = 2 }), nil, budget.Numbers{Total: 2, Desired: 4, Current: 2},
		},
		"scaled to zero": {
			with(most("1", pods(2)), func(b *budget.Budget) { b.Expected = 0 }), nil, budget.Numbers{Current: 2, Allowed: 1},
		},
		"before its pods": {least("50%", nil), nil, budget.Numbers{}},
		"an unknown size": {
			with(most("1", pods(2)), func(b *budget.Budget) { b.Unknown = "no scale" }), nil,
			budget.Numbers{Total: 2, Desired: 2, Current: 2, Unknown: "no scale"},
		},
		"an unknown size that is not needed": {
			with(least("1", pods(2)), func(b *budget.Budget) { b.Unknown = "no scale" }), nil,
			budget.Numbers{Total: 2, Desired: 1, Current: 2, Allowed: 1, Unknown: "no scale"},
		},
		"another address, and places are kept": {
			with(most("1", []budget.Pod{serving(0), displaced}), func(b *budget.Budget) { b.Rules.KeepPlace = true }), nil,
			budget.Numbers{Total: 2, Desired: 1, Current: 1},
		},
		"another address, and places are not kept": {
			most("1", []budget.Pod{serving(0), displaced}), nil, budget.Numbers{Total: 2, Desired: 1, Current: 2, Allowed: 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, budget.Count(tc.budget, book(tc.book...), now)); diff != "" {
				t.Errorf("numbers (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("an expired entry", func(t *testing.T) {
		if got := budget.Count(most("1", pods(2)), expired, now).Current; got != 2 {
			t.Errorf("current %d, want 2", got)
		}
		if got := budget.Count(most("1", pods(2)), expired, now.Add(-time.Millisecond)).Current; got != 1 {
			t.Errorf("current %d a moment before, want 1", got)
		}
	})
}

// A budget over pods that no workload makes again holds only if its number does not depend on the size.
func TestLoose(t *testing.T) {
	for name, tc := range map[string]struct {
		budget budget.Budget
		bare   int
		want   int
	}{
		"a number may go":            {most("1", pods(3)), 3, 3},
		"a share may go":             {most("30%", pods(3)), 1, 1},
		"all may go":                 {most("100%", pods(3)), 3, 0},
		"a share must stay":          {least("50%", pods(3)), 3, 3},
		"a number must stay":         {least("2", pods(3)), 3, 0},
		"workloads make all of them": {most("1", pods(3)), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tc.budget.Bare = tc.bare
			if got := tc.budget.Loose(); got != tc.want {
				t.Errorf("%d pods, want %d", got, tc.want)
			}
		})
	}
}
