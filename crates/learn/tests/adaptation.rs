//! Network adaptation against the recorded data of the study (`make parity`).
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rota_core::random::RandomStream;
use rota_learn::adapt::choose::exact::{ExactSettings, learn_exactly};
use rota_learn::adapt::choose::game::Game;
use rota_learn::adapt::choose::policy::{Decision, PolicyNetwork, PolicyState, time_encoding};
use rota_learn::adapt::choose::policy_file::read_policy;
use rota_learn::adapt::choose::vocabulary::Vocabulary;
use rota_learn::adapt::judge::evaluation::{Choice, Judged, leave_one_out};
use rota_learn::adapt::network::architecture::{Architecture, FinalRelu, InputShape};
use rota_learn::adapt::record::reward::{standardised, tangent};
use rota_learn::adapt::record::table::{Table, find, read_tables};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The folder of recorded data; without it there is nothing to compare with, which only CI takes for a failure.
fn reference() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/adaptation");
    let there = folder.is_dir();
    assert!(there || std::env::var("CI").is_err(), "{} is missing", folder.display());
    if !there {
        println!("skipped: no reference data");
    }
    there.then_some(folder)
}

fn policy(folder: &Path, name: &str) -> PolicyNetwork {
    read_policy(&std::fs::read(folder.join(format!("policies/{name}.safetensors"))).unwrap()).unwrap().0
}

#[test]
fn parity_policies_give_the_recorded_probabilities() {
    let Some(folder) = reference() else { return };
    let vocabulary = Vocabulary::read(&folder.join("vocabulary.csv")).unwrap();
    let mut policies: HashMap<String, PolicyNetwork> = HashMap::new();
    let mut decision = Decision::default();
    let (mut rows, mut worst) = (0, 0.0_f64);
    for record in csv::Reader::from_path(folder.join("policies/probabilities.csv")).unwrap().records() {
        let record = record.unwrap();
        let network = policies.entry(record[0].to_owned()).or_insert_with(|| policy(&folder, &record[0]));
        assert_eq!(network.parameters().len(), 54_980);
        let base = Architecture::new(record[1].parse().unwrap(), InputShape::CIFAR, FinalRelu::Kept).unwrap();
        let before = record[4].bytes().map(|digit| usize::from(digit - b'0')).collect::<Vec<_>>();
        let layers = vocabulary.rows(base.after(&before).unwrap().leaves()).unwrap();
        network.decide(&PolicyState { layers, time: time_encoding(record[5].parse().unwrap(), 400.0) }, &mut decision);
        for (action, probability) in decision.probabilities.iter().enumerate() {
            let recorded = record[6 + action].parse::<f64>().unwrap();
            worst = worst.max((f64::from(*probability) - recorded).abs());
        }
        assert_eq!(decision.greedy().to_string(), record[10]);
        rows += 1;
    }
    println!("{rows} rows, largest difference {worst:.2e}");
    assert_eq!(rows, 210);
    assert!(worst <= 1e-5, "largest difference {worst}");
}

#[test]
fn parity_rewards_and_ranks_are_the_recorded_ones() {
    let Some(folder) = reference() else { return };
    let tables = read_tables(&folder.join("simulations.csv")).unwrap();
    assert_eq!(tables.len(), 10);
    let mut rows = 0;
    for record in csv::Reader::from_path(folder.join("simulations.csv")).unwrap().records() {
        let record = record.unwrap();
        let table = find(&tables, &format!("{}/{}", &record[0], &record[1])).unwrap();
        let triple = [4, 5, 6].map(|column| record[column].parse::<usize>().unwrap());
        assert_eq!(table.rank(triple).to_string(), record[9], "{} {triple:?}", table.name());
        let reward = tangent(table.run(triple).accuracy).unwrap();
        assert!((reward - record[8].parse::<f64>().unwrap()).abs() < 1e-3);
        let grown = table.architecture.after(&triple).unwrap().parameters();
        assert_eq!(grown.to_string(), record[17], "{} {triple:?}", table.name());
        rows += 1;
    }
    assert_eq!(rows, 640);
}

#[test]
fn parity_the_exact_gradient_finds_the_best_triples_of_convnet2() {
    let Some(folder) = reference() else { return };
    let tables = read_tables(&folder.join("simulations.csv")).unwrap();
    for name in ["ConvNet2/early", "ConvNet2/middle", "ConvNet2/late"] {
        let table = find(&tables, name).unwrap();
        let game = Game::new(table, &Vocabulary::Free(1)).unwrap();
        let rewards = standardised(&table.runs.iter().map(|run| run.accuracy).collect::<Vec<_>>());
        let mut network = PolicyNetwork::random(4, &mut RandomStream::new(1, "policy"));
        learn_exactly(&mut network, &game, &rewards, ExactSettings::new(100));
        let triple = game.greedy(&network).0;
        assert_eq!(table.rank(triple), 1, "{name}: {triple:?}");
    }
}

#[test]
fn parity_baselines_come_out_and_the_default_is_better_than_random() {
    let Some(folder) = reference() else { return };
    let tables = read_tables(&folder.join("simulations.csv")).unwrap();
    let judged = Judged {
        name: "E→L→M".to_owned(),
        network: policy(&folder, "curriculum_elm_10_1"),
        vocabulary: Vocabulary::read(&folder.join("vocabulary.csv")).unwrap(),
    };
    let choices = leave_one_out(&tables, 5, &[judged]).unwrap();
    let of = |name: &str| -> &Choice { choices.iter().find(|choice| choice.choice == name).unwrap() };
    for (name, regret) in [
        ("nothing", 9.80),
        ("random triple", 5.28),
        ("random among triples that only deepen convolutions", 3.22),
        ("best fixed triple of the other tables", 2.94),
        ("policy E→L→M", 3.09),
    ] {
        assert!((of(name).regret_points_mean - regret).abs() < 0.006, "{name}: {}", of(name).regret_points_mean);
    }
    let default = of("default");
    println!("default {:.2}, better than random {:?}", default.regret_points_mean, default.better_than_random);
    assert!(default.regret_points_mean <= 2.94, "{}", default.regret_points_mean);
    assert!(default.better_than_random["all"].low > 0.0, "{:?}", default.better_than_random);
    assert!(default.better_than_random["ConvNet2"].low > 0.0, "{:?}", default.better_than_random);
}

#[test]
fn the_shipped_tables_hold_every_triple_at_both_costs() {
    let tables = read_tables(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/fashion-mnist-14x14.csv")).unwrap();
    assert_eq!(tables.iter().map(Table::name).collect::<Vec<_>>(), ["ConvNet2/middle-arithmetic", "ConvNet2/middle-recorded"]);
    for table in &tables {
        assert_eq!(table.runs.len(), 64, "{}", table.name());
    }
    // Where a deepening is paid in full, no triple has a higher mean of the last five epochs than a network that stays as it is.
    let best = tables[0].runs.iter().max_by(|a, b| a.settled.total_cmp(&b.settled)).unwrap();
    assert_eq!(best.actions, tables[0].nothing());
}
