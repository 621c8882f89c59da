//! Groups that stand at the same place are read together, by one look at each record.

use super::progress::Progress;

/// Groups that one claim holds and that stand at the same place of the same difference.
#[derive(Debug, Clone)]
pub(super) struct Team {
    members: Vec<Progress>,
    /// Records up to this position are read now, because the next groups ahead stand there; `None`: up to the end of the difference.
    pub(super) upto: Option<i64>,
}

impl Team {
    /// Those that are read now, and those that wait for others of their difference to catch up with them.
    pub(super) fn form(standing: Vec<Progress>) -> (Vec<Self>, Vec<Self>) {
        let mut teams: Vec<Self> = Vec::new();
        for progress in standing {
            let fits = |team: &&mut Team| {
                team.lead().is_in_step(&progress) && team.lead().position == progress.position
            };
            match teams.iter_mut().find(fits) {
                Some(team) => team.members.push(progress),
                None => teams.push(Self {
                    members: vec![progress],
                    upto: None,
                }),
            }
        }
        let places: Vec<Progress> = teams.iter().map(|team| team.lead().clone()).collect();
        let others = |lead: &Progress| {
            let places = places.iter().filter(|place| place.is_in_step(lead));
            places.map(|place| place.position).collect::<Vec<_>>()
        };
        for team in &mut teams {
            let here = team.lead().position;
            let ahead = others(team.lead()).into_iter();
            team.upto = ahead.filter(|position| *position > here).min();
        }
        teams.into_iter().partition(|team| {
            let here = team.lead().position;
            others(team.lead()).iter().all(|position| *position >= here)
        })
    }

    /// Any of them: they stand at the same place.
    pub(super) fn lead(&self) -> &Progress {
        &self.members[0]
    }

    pub(super) fn members(&self) -> &[Progress] {
        &self.members
    }

    pub(super) fn groups(&self) -> Vec<i32> {
        self.members.iter().map(|member| member.group).collect()
    }

    /// Whether `next` is this team after it was saved at a position.
    pub(super) fn is_before(&self, next: &Self, position: i64) -> bool {
        let follows = |(member, next): (&Progress, &Progress)| {
            member.group == next.group
                && member.version + 1 == next.version
                && member.epoch == next.epoch
                && member.timeline == next.timeline
                && member.is_same_difference(next)
        };
        self.members.len() == next.members.len()
            && self.upto == next.upto
            && next.lead().position == position
            && std::iter::zip(&self.members, &next.members).all(follows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(group: i32, position: i64) -> Progress {
        Progress {
            group,
            position,
            fresh: false,
            ..Progress::example()
        }
    }

    /// Which groups are read now, and how far; which wait.
    fn formed(standing: Vec<Progress>) -> String {
        let (now, waiting) = Team::form(standing);
        let now: Vec<_> = now.iter().map(|team| (team.groups(), team.upto)).collect();
        let waiting: Vec<_> = waiting.iter().map(Team::groups).collect();
        format!("{now:?} {waiting:?}")
    }

    #[test]
    fn groups_at_the_same_place_are_one_team() {
        assert_eq!(
            formed(vec![at(0, 7), at(1, 7), at(2, 7)]),
            "[([0, 1, 2], None)] []"
        );
    }

    #[test]
    fn groups_ahead_wait_until_the_others_have_caught_up() {
        assert_eq!(
            formed(vec![at(0, 9), at(1, 7), at(2, 12), at(3, 7)]),
            "[([1, 3], Some(9))] [[0], [2]]"
        );
    }

    #[test]
    fn groups_of_other_differences_go_their_own_way() {
        let other = Progress {
            from: "4:4:".parse().unwrap(),
            ..at(1, 5)
        };
        assert_eq!(
            formed(vec![at(0, 9), other]),
            "[([0], None), ([1], None)] []"
        );
    }

    #[test]
    fn what_was_read_ahead_is_of_the_same_groups_one_version_ago() {
        let team = |standing| Team::form(standing).0.remove(0);
        let saved = |group, version| Progress {
            version,
            ..at(group, 9)
        };
        let before = team(vec![at(0, 7), at(1, 7)]);
        let version = at(0, 7).version;
        let next = |versions: [i64; 2]| team(vec![saved(0, versions[0]), saved(1, versions[1])]);
        assert!(before.is_before(&next([version + 1, version + 1]), 9));
        assert!(!before.is_before(&next([version + 1, version + 1]), 8));
        assert!(!before.is_before(&next([version + 1, version + 2]), 9));
        assert!(!before.is_before(&team(vec![saved(0, version + 1)]), 9));
    }
}
