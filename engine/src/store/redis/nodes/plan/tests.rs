use super::*;

/// So many buckets without load that nobody holds.
fn free(count: usize) -> Vec<Bucket> {
    vec![Bucket { holder: None, load: 0 }; count]
}

fn timer(group: &str, weight: u32) -> Timer<'_> {
    Timer { group, weight, threshold: None }
}

/// Carries plans out until nothing moves any more, and answers how many buckets did that had a holder.
fn settle(timers: &[Timer<'_>], buckets: &mut [Bucket]) -> usize {
    let mut moves = 0;
    for _ in 0..1000 {
        let planned = plan(timers, buckets);
        let mut in_this_round = 0;
        let mut is_settled = true;
        for (bucket, holder) in buckets.iter_mut().zip(planned) {
            in_this_round += usize::from(bucket.holder.is_some() && bucket.holder != holder);
            is_settled &= bucket.holder == holder;
            bucket.holder = holder;
        }
        assert!(in_this_round <= MOVES_MAX, "{in_this_round} at once");
        moves += in_this_round;
        if is_settled {
            return moves;
        }
    }
    panic!("it never settles");
}

fn counts(timers: usize, buckets: &[Bucket]) -> Vec<usize> {
    (0..timers).map(|timer| buckets.iter().filter(|b| b.holder == Some(timer)).count()).collect()
}

fn loads(timers: usize, buckets: &[Bucket]) -> Vec<u64> {
    let of = |timer| buckets.iter().filter(move |b| b.holder == Some(timer));
    (0..timers).map(|timer| of(timer).map(|b| b.load + BASE).sum()).collect()
}

#[test]
fn without_timers_nobody_holds_anything() {
    assert_eq!(plan(&[], &free(3)), [None, None, None]);
}

#[test]
fn shares_follow_weight() {
    let timers = [timer("a", 1), timer("a", 3)];
    let mut buckets = free(256);
    assert_eq!(settle(&timers, &mut buckets), 0);
    assert_eq!(counts(2, &buckets), [64, 192]);
    let timers = [timer("a", 1), timer("b", 1), timer("a", 1)];
    let mut buckets = free(256);
    settle(&timers, &mut buckets);
    assert_eq!(counts(3, &buckets), [86, 85, 85]);
}

#[test]
fn one_who_joins_gets_its_share_and_nothing_else_moves() {
    let mut timers = vec![timer("a", 1), timer("a", 1)];
    let mut buckets = free(256);
    settle(&timers, &mut buckets);
    timers.push(timer("a", 2));
    assert_eq!(settle(&timers, &mut buckets), 128);
    assert_eq!(counts(3, &buckets), [64, 64, 128]);
}

#[test]
fn what_one_held_who_is_gone_is_shared_out_and_nothing_else_moves() {
    let timers = [timer("a", 1), timer("a", 1), timer("b", 1)];
    let mut buckets = free(255);
    settle(&timers, &mut buckets);
    // The last is gone.
    for bucket in &mut buckets {
        bucket.holder = bucket.holder.filter(|holder| *holder < 2);
    }
    let before: Vec<_> = buckets.iter().map(|bucket| bucket.holder).collect();
    assert_eq!(settle(&timers[..2], &mut buckets), 0);
    assert!(buckets.iter().zip(before).all(|(b, was)| was.is_none() || b.holder == was));
    assert!(counts(2, &buckets).iter().all(|count| (127..=128).contains(count)));
}

#[test]
fn a_busy_bucket_counts_for_its_load() {
    let timers = [timer("a", 1), timer("a", 1)];
    let mut buckets = free(256);
    settle(&timers, &mut buckets);
    let busy = buckets.iter().position(|b| b.holder == Some(0)).unwrap();
    buckets[busy].load = 100;
    settle(&timers, &mut buckets);
    let loads = loads(2, &buckets);
    assert!(loads[0].abs_diff(loads[1]) <= 2 * 26, "{loads:?}");
    // One that is busier than all others together is held alone.
    buckets[busy].load = 10_000;
    settle(&timers, &mut buckets);
    let alone = buckets[busy].holder.unwrap();
    assert_eq!(counts(2, &buckets)[alone], 1);
}

#[test]
fn loads_that_are_about_the_same_move_nothing() {
    let timers = [timer("a", 1), timer("a", 2), timer("b", 1)];
    let mut buckets = free(256);
    for (at, bucket) in buckets.iter_mut().enumerate() {
        bucket.load = 10 + (at as u64 * 7) % 50;
    }
    settle(&timers, &mut buckets);
    for round in 0..100 {
        let mut wavering = buckets.clone();
        for (at, bucket) in wavering.iter_mut().enumerate() {
            let up = (at + round) % 3;
            bucket.load = bucket.load * (9 + up as u64) / 10;
        }
        let holders: Vec<_> = buckets.iter().map(|bucket| bucket.holder).collect();
        assert_eq!(plan(&timers, &wavering), holders, "round {round}");
    }
}

#[test]
fn one_over_its_threshold_hands_over_to_its_group_first() {
    let mut timers = vec![timer("a", 1), timer("a", 1), timer("b", 2)];
    let mut buckets = free(256);
    buckets.iter_mut().for_each(|bucket| bucket.load = 9);
    settle(&timers, &mut buckets);
    assert_eq!(counts(3, &buckets), [64, 64, 128]);
    // Of its 640 it wants 200 at most.
    timers[0].threshold = Some(200);
    settle(&timers, &mut buckets);
    let now = counts(3, &buckets);
    assert!(now[0] < 40 && now[1] > 85 && now[2] == 128, "{now:?}");
}

#[test]
fn a_group_over_its_thresholds_hands_over_to_others() {
    let mut timers = vec![timer("a", 1), timer("a", 1), timer("b", 2)];
    let mut buckets = free(256);
    buckets.iter_mut().for_each(|bucket| bucket.load = 9);
    settle(&timers, &mut buckets);
    timers[0].threshold = Some(200);
    timers[1].threshold = Some(300);
    settle(&timers, &mut buckets);
    let now = counts(3, &buckets);
    assert!(now[0] < 40 && now[1] < 50 && now[2] > 170, "{now:?}");
}

#[test]
fn a_group_that_is_gone_is_taken_over_by_another() {
    let timers = [timer("b", 1), timer("b", 3)];
    let mut buckets = free(256);
    // Half of them were held by others, of a group that is gone.
    for bucket in &mut buckets[..128] {
        bucket.holder = Some(1);
    }
    settle(&timers, &mut buckets);
    assert_eq!(counts(2, &buckets), [64, 192]);
}

#[test]
fn where_all_are_over_each_is_by_as_much() {
    let mut timers = vec![timer("a", 1), timer("b", 1)];
    timers[0].threshold = Some(10);
    timers[1].threshold = Some(30);
    let mut buckets = free(256);
    settle(&timers, &mut buckets);
    assert_eq!(counts(2, &buckets), [64, 192]);
}

#[test]
fn whatever_stands_and_whatever_comes_it_settles() {
    // A plain generator: the same numbers every time.
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let groups = ["a", "b", "c"];
    for _ in 0..200 {
        let count = 1 + next(9) as usize;
        let timers: Vec<Timer<'_>> = (0..count)
            .map(|_| Timer {
                group: groups[next(3) as usize],
                weight: 1 + next(5) as u32,
                threshold: (next(3) == 0).then(|| next(2000)),
            })
            .collect();
        let mut buckets = free(64);
        for bucket in &mut buckets {
            bucket.holder = Some(next(count as u64 + 1) as usize).filter(|at| *at < count);
            bucket.load = if next(4) == 0 { next(500) } else { next(3) };
        }
        settle(&timers, &mut buckets);
        assert!(buckets.iter().all(|bucket| bucket.holder.is_some()));
    }
}
